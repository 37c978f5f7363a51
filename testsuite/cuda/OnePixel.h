#pragma once

#include "runtime/kernels/ConvolutionFields.h"
#include "runtime/kernels/MatrixProductFields.h"

namespace pdc::testing {

/// A convolution of one pixel and channel by one weight: their product.
inline runtime::ConvolutionFields onePixel() {
  runtime::ConvolutionFields f;
  f.name = "asked";
  f.input = f.output = f.weight = {1, 1, 1, 1};
  f.strides = f.dilations = {1, 1};
  f.padsBegin = f.padsEnd = {0, 0};
  return f;
}

/// The product of two matrices of one number.
inline runtime::MatrixProductFields oneNumber() {
  runtime::MatrixProductFields f;
  f.name = "asked";
  f.a = f.b = f.output = {1, 1};
  return f;
}

} // namespace pdc::testing
