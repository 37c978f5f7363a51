#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace pdc::runtime {

/// tanh to about two ulps without a branch or a call, so that loops over it become vectors; each
/// element has the same bits in a vector as alone. With e = exp(2 |x|) - 1: tanh |x| = e / (e + 2).
inline float hyperbolicTangent(float x) {
  constexpr float kSaturated = 9.5f, kMagic = 0x1.8p23f; // adding it rounds to a whole number
  const float size = std::abs(x), y = 2 * (size > kSaturated ? kSaturated : size);
  const float n = (y * 0x1.715476p0f + kMagic) - kMagic;
  const float r = (y - n * 0x1.63p-1f) - n * -0x1.bd0106p-13f; // y - n log 2
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r; // exp(r) - 1
  // Of a NaN the power is any number.
  const float power = std::bit_cast<float>((static_cast<int32_t>(n == n ? n : 0) + 127) << 23);
  const float e = power * p + (power - 1);
  return std::copysign(e / (e + 2), x);
}
inline double hyperbolicTangent(double x) { return std::tanh(x); }

} // namespace pdc::runtime
