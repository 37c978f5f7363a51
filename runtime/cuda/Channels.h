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

/// A thread per `Width` neighbours of `Rows` rows, a part of all rows from one to the next.
template <int Width, int Rows, class Body>
__global__ void channelKernel(int64_t part, int64_t columns, Body body) {
  const int64_t i = globalThread() * Width;
  if (i >= part)
    return;
  const int64_t c = i % columns;
  decltype(body.template fetched<Width>(i)) elements[Rows];
  PDC_UNROLL
  for (int row = 0; row < Rows; ++row)
    elements[row] = body.template fetched<Width>(i + row * part);
  const auto numbers = numbersOf<Width>(body, c);
  PDC_UNROLL
  for (int row = 0; row < Rows; ++row)
    store(body.to + i + row * part, body.of(elements[row], numbers));
}

template <int Width, int Rows, class Body>
void overParts(const Run &run, const Channels &shape, const Body &body) {
  const int64_t part = shape.elements() / Rows;
  launchOver(run, part / Width, channelKernel<Width, Rows, Body>, part, shape.columns, body);
}

template <int Width, class Body>
void overRows(const Run &run, const Channels &shape, const Body &body) {
  if (shape.rows % kRowsTogether == 0)
    overParts<Width, kRowsTogether>(run, shape, body);
  else
    overParts<Width, 1>(run, shape, body);
}

/// For each `Width` neighbours of a row, body.to = body.of(body.fetched<Width>(element), numbersOf
/// the channel), where `fetched` only reads: all elements, four at a time where the channels come
/// in fours. (A division per element would take longer than its memory.) Where it writes, it may
/// read the same element.
template <class Body> void overChannels(const Run &run, const Channels &shape, const Body &body) {
  if (shape.columns % kLanes == 0)
    overRows<kLanes>(run, shape, body);
  else
    overRows<1>(run, shape, body);
}

#endif

} // namespace pdc::runtime::cuda
