#pragma once

#include "runtime/kernels/BatchNormalizationFields.h"
#include "runtime/kernels/ConvolutionFields.h"

namespace pdc::runtime {

/// A convolution of fp16 and the batch normalisation of its result. `input` is the convolution's;
/// its `output` is what is normalised; `addend`, `relu` and `results` are the normalisation's.
struct NormalisedConvolutionFields {
  int64_t addend = 0;
  const char *compute = "fp16";
  Dimensions dilations;
  double epsilon = 1e-5;
  int64_t groups = 1;
  Dimensions input;
  double momentum = 0.9;
  const char *name = "";
  Dimensions output;
  Dimensions padsBegin;
  Dimensions padsEnd;
  int64_t relu = 0;
  Dimensions results;
  Dimensions strides;
  Dimensions weight;

  ConvolutionFields convolution() const {
    return {.compute = compute,
            .dilations = dilations,
            .groups = groups,
            .input = input,
            .name = name,
            .output = output,
            .padsBegin = padsBegin,
            .padsEnd = padsEnd,
            .strides = strides,
            .weight = weight};
  }
  BatchNormalizationFields normalisation() const {
    return {.addend = addend,
            .epsilon = epsilon,
            .input = output,
            .momentum = momentum,
            .relu = relu,
            .results = results};
  }
};

} // namespace pdc::runtime
