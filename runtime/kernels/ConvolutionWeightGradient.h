#pragma once

#include "runtime/kernels/ConvolutionFields.h"
#include "runtime/kernels/PackedWeight.h"

namespace pdc::runtime {

/// dw [+]= from dy and x. Padding of dw is zero.
class ConvolutionWeightGradient {
public:
  ConvolutionWeightGradient(const Device &device, const ConvolutionFields &fields);
  void operator()(const Run &run, const float *dy, const float *x, float *dw, bool add);

private:
  LibraryCall call;
  PackedWeight weight;
  int64_t elements = 0; ///< of dw, padding included
};

} // namespace pdc::runtime
