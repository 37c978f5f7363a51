#pragma once

#include "runtime/cuda/Lanes.h"

namespace pdc::runtime::cuda {

#if defined(__CUDACC__) || defined(PDC_CUDA_THREADS)

/// How channels are normalised.
template <int Width> struct Normalising {
  Lanes<float, Width> mean, factor, bias;
  template <class T>
  __device__ Lanes<float, Width> operator()(const Packed<T, Width> &element) const {
    auto value = widened(element);
    for (int lane = 0; lane < Width; ++lane)
      value.at[lane] = (value.at[lane] - mean.at[lane]) * factor.at[lane] + bias.at[lane];
    return value;
  }
};

/// An image by the statistics of its channels.
template <class T> struct Normalised {
  const T *x;
  const float *scale, *bias, *mean, *inverse;
  template <int Width> __device__ Normalising<Width> numbers(int64_t c) const {
    return {load<Width>(mean + c), load<Width>(inverse + c) * load<Width>(scale + c),
            load<Width>(bias + c)};
  }
};

#endif

} // namespace pdc::runtime::cuda
