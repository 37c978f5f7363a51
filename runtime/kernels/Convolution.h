#pragma once

#include "runtime/kernels/ConvolutionFields.h"
#include "runtime/kernels/PackedWeight.h"

namespace pdc::runtime {

/// y = x * w [+ bias], relu(...)
class Convolution {
public:
  Convolution(const Device &device, const ConvolutionFields &fields);
  void operator()(const Run &run, const float *x, const float *w, const float *bias, float *y);
  /// The same without bias.
  void operator()(const Run &run, const float *x, const float *w, float *y) {
    (*this)(run, x, w, nullptr, y);
  }

private:
  /// The library may pack weights differently with a bias.
  struct Call {
    LibraryCall library;
    PackedWeight weight;
  };
  Call &callFor(bool withBias) { return withBias ? biased : plain; }
  Call plain, biased;
};

} // namespace pdc::runtime
