#pragma once

#include "runtime/kernels/Exponential.h"

#include <bit>
#include <cmath>
#include <cstdint>

namespace pdc::runtime {

/// tanh to about two ulps without a branch or a call, so that loops over it become vectors; each
/// element has the same bits in a vector as alone. With e = exp(2 |x|) - 1: tanh |x| = e / (e + 2).
inline float hyperbolicTangent(float x) {
  constexpr float kSaturated = 9.5f;
  const float size = std::abs(x);
  const auto [n, less] = reduceExponential(2 * (size > kSaturated ? kSaturated : size));
  // Of a NaN the power is any number.
  const float power = std::bit_cast<float>((static_cast<int32_t>(n == n ? n : 0) + 127) << 23);
  const float e = power * less + (power - 1);
  return std::copysign(e / (e + 2), x);
}
inline double hyperbolicTangent(double x) { return std::tanh(x); }

} // namespace pdc::runtime
