#pragma once

#include "runtime/cuda/Launch.h"

#include <cmath>

namespace pdc::runtime::cuda {

/// pow of an exponent that stands in the source. As in PyTorch some are products, quotients and
/// roots; a root of a negative number is NaN, even of an infinite one. CUDA's pow takes some sixty
/// instructions, which a loop over memory would wait for.
PDC_EITHER inline float knownPower(float x, float y) {
  if (y == 1 || y == -1)
    return y == 1 ? x : 1 / x;
  if (y == 2 || y == 3)
    return y == 2 ? x * x : x * x * x;
  if (y == 0.5f || y == -0.5f)
    return y == 0.5f ? sqrtf(x) : 1 / sqrtf(x);
  return powf(x, y);
}
PDC_EITHER inline double knownPower(double x, double y) { return pow(x, y); }

} // namespace pdc::runtime::cuda
