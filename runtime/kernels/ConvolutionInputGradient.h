#pragma once

#include "runtime/kernels/ConvolutionFields.h"
#include "runtime/kernels/PackedWeight.h"

namespace pdc::runtime {

/// dx from dy and w
class ConvolutionInputGradient {
public:
  ConvolutionInputGradient(const Device &device, const ConvolutionFields &fields);
  void operator()(const Run &run, const float *dy, const float *w, float *dx);

private:
  LibraryCall call;
  PackedWeight weight;
};

} // namespace pdc::runtime
