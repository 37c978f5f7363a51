#pragma once

#include "runtime/Program.h"
#include "runtime/kernels/Dimensions.h"

namespace pdc::runtime {

/// y = x / (bias + alpha / size * sum of x^2 over `size` neighbouring channels) ^ beta, row-major.
struct LocalResponseFields {
  double alpha = 1e-4;
  double beta = 0.75;
  double bias = 1;
  Dimensions input; ///< shape
  int64_t size = 1;
};

} // namespace pdc::runtime
