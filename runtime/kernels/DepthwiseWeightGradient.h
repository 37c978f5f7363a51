#pragma once

#include "runtime/Program.h"
#include "runtime/kernels/ConvolutionFields.h"

namespace pdc::runtime {

/// dw [+]= from dy and x, of lines of which each channel is convolved by itself, in channel blocks
/// or with the channels last: [samples, channels, length], dw row-major. The library has no fast
/// kernel for long windows. Bits do not depend on the number of threads.
class DepthwiseWeightGradient {
public:
  DepthwiseWeightGradient(const Device &device, const ConvolutionFields &fields);
  void operator()(const Run &run, const float *dy, const float *x, float *dw, bool add) const;

private:
  /// Distances between elements.
  struct Layout {
    int64_t sample = 0, block = 0, pixel = 0;
  };
  static Layout layoutOf(const Dimensions &shape, const char *layout);
  template <int L> friend class DepthwiseTaps;

  int64_t samples, channels, length, results, window, stride, dilation, pad, lanes;
  Layout input, output;
  int threads;
};

} // namespace pdc::runtime
