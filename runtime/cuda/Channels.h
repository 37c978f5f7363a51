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

template <int Width, class Body>
__global__ void channelKernel(int64_t elements, int64_t columns, Body body) {
  const int64_t i = globalThread() * Width;
  if (i < elements)
    body.template at<Width>(i, i % columns);
}

/// body.at<Width>(element, its channel) for each `Width` neighbours of a row: all elements, four at
/// a time where the channels come in fours. (A division per element would take longer than its
/// memory.)
template <class Body> void overChannels(const Run &run, const Channels &shape, Body body) {
  if (shape.columns % kLanes == 0)
    launchOver(run, shape.elements() / kLanes, channelKernel<kLanes, Body>, shape.elements(),
               shape.columns, body);
  else
    launchOver(run, shape.elements(), channelKernel<1, Body>, shape.elements(), shape.columns,
               body);
}

#endif

} // namespace pdc::runtime::cuda
