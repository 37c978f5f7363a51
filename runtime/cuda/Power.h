#pragma once

#include "runtime/cuda/Launch.h"

#include <cmath>

namespace pdc::runtime::cuda {

/// pow as PyTorch has it of exponents that stand in the source: products, and roots, of which one
/// of a negative number is NaN. CUDA's takes some sixty instructions, which a loop over memory
/// would wait for.
PDC_EITHER inline float power(float x, float y) {
  if (y == 1 || y == -1)
    return y == 1 ? x : 1 / x;
  if (y == 2 || y == 3)
    return y == 2 ? x * x : x * x * x;
  if (y == 0.5f || y == -0.5f)
    return y == 0.5f ? sqrtf(x + 0) : 1 / sqrtf(x + 0); // of -0 as of 0
  return powf(x, y);
}
PDC_EITHER inline double power(double x, double y) { return pow(x, y); }

} // namespace pdc::runtime::cuda
