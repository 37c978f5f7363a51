#pragma once

#include "runtime/cuda/Lanes.h"

#include <span>

namespace pdc::runtime::cuda {

/// An NC... tensor stored [sample][pixel][channel] (a matrix as it is): a matrix with a column per
/// channel.
struct Channels {
  int64_t rows, columns;

  explicit Channels(std::span<const int64_t> shape) : rows(shape[0]), columns(shape[1]) {
    for (size_t d = 2; d < shape.size(); ++d)
      rows *= shape[d];
  }
  int64_t elements() const { return rows * columns; }
};

#if defined(__CUDACC__) || defined(PDC_CUDA_THREADS)

/// `Width` neighbours of `Rows` rows, a part of all of them from one to the next. find() gives the
/// numbers of their channels.
template <int Width, int Rows, class Body, class Find>
__device__ void overRowsApart(const Body &body, int64_t first, int64_t part, Find find) {
  decltype(body.template fetched<Width>(first)) elements[Rows];
  PDC_UNROLL
  for (int row = 0; row < Rows; ++row)
    elements[row] = body.template fetched<Width>(first + row * part);
  const auto numbers = find();
  PDC_UNROLL
  for (int row = 0; row < Rows; ++row)
    store(body.to + first + row * part, body.of(elements[row], numbers));
}

/// A thread per `Width` neighbours of `Rows` rows.
template <int Width, int Rows, class Body>
__global__ void channelKernel(int64_t part, int64_t columns, Body body) {
  const int64_t i = globalThread() * Width;
  if (i < part)
    overRowsApart<Width, Rows>(body, i, part, [&] { return numbersOf<Width>(body, i % columns); });
}

/// The same, of rows of one sample, each of which has numbers of its own.
template <int Width, int Rows, class Body>
__global__ void sampleChannelKernel(int64_t samples, int64_t part, int64_t columns, Body body) {
  const int64_t i = globalThread() * Width, sample = i / part, within = i % part;
  if (sample < samples)
    overRowsApart<Width, Rows>(body, sample * Rows * part + within, part,
                               [&] { return numbersOf<Width>(body, sample, within % columns); });
}

/// start(Width, Rows, as types): as many neighbours and rows as divide all.
template <class Start> void forWidths(const Channels &shape, Start start) {
  auto with = [&](auto width) {
    if (shape.rows % kRowsTogether == 0)
      start(width, std::integral_constant<int, kRowsTogether>());
    else
      start(width, std::integral_constant<int, 1>());
  };
  if (shape.columns % kLanes == 0)
    with(std::integral_constant<int, kLanes>());
  else
    with(std::integral_constant<int, 1>());
}

/// For each `Width` neighbours of a row, body.to = body.of(body.fetched<Width>(element), numbersOf
/// the channel), where `fetched` only reads: all elements, four at a time where the channels come
/// in fours. (A division per element would take longer than its memory.) Where it writes, it may
/// read the same element.
template <class Body> void overChannels(const Run &run, const Channels &shape, const Body &body) {
  forWidths(shape, [&](auto width, auto rows) {
    constexpr int Width = width(), Rows = rows();
    const int64_t part = shape.elements() / Rows;
    launchOver(run, part / Width, channelKernel<Width, Rows, Body>, part, shape.columns, body);
  });
}

/// The same with numbersOf the sample and the channel, where `shape` is that of one sample.
template <class Body>
void overSamples(const Run &run, int64_t samples, const Channels &shape, const Body &body) {
  forWidths(shape, [&](auto width, auto rows) {
    constexpr int Width = width(), Rows = rows();
    const int64_t part = shape.elements() / Rows;
    launchOver(run, samples * part / Width, sampleChannelKernel<Width, Rows, Body>, samples, part,
               shape.columns, body);
  });
}

#endif

} // namespace pdc::runtime::cuda
