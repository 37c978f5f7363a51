#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace pdc::runtime {

/// An angle as `quarter` right angles, from 0 to 3, and what is left, from -pi / 4 to pi / 4.
struct ReducedAngle {
  int32_t quarter;
  float left;
};
inline ReducedAngle reduceAngle(float angle) {
  // Of 1 / (2 pi) so many bits at a time that their products with an f32 are exact.
  const double x = angle, first = x * 0x1.45f306dp-3, second = x * 0x1.9391054p-32;
  const double turns = (first - std::rint(first)) + (second - std::rint(second)) +
                       x * 0x1.4fe13abe8fa9ap-61;
  const double right = 4 * turns, whole = std::rint(right);
  // Of what is none, or too large, any quarter.
  const double known = std::abs(whole) < 8 ? whole : 0;
  return {static_cast<int32_t>(known) & 3,
          static_cast<float>((right - whole) * 0x1.921fb54442d18p0)};
}

/// The sine, `quarter` right angles further on.
inline float sineOf(ReducedAngle angle, int32_t quarter) {
  const float r = angle.left, z = r * r;
  float s = -1.9515295891e-4f;
  s = s * z + 8.3321608736e-3f;
  s = s * z - 1.6666654611e-1f;
  s = s * z * r + r;
  float c = 2.443315711809948e-5f;
  c = c * z - 1.388731625493765e-3f;
  c = c * z + 4.166664568298827e-2f;
  c = c * z * z - 0.5f * z + 1;
  const int32_t at = angle.quarter + quarter;
  const float size = (at & 1) != 0 ? c : s;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(size) ^ static_cast<uint32_t>(at & 2) << 30);
}

/// sin to about two ulps without a branch or a call, so that loops over it become vectors; each
/// element has the same bits in a vector as alone. Beyond 2^50, where neighbours lie many turns
/// apart, it is some number from -1 to 1.
inline float sine(float x) {
  const float found = sineOf(reduceAngle(x), 0);
  return std::abs(x) < 0x1p-12f ? x : found; // keeps the sign of zero
}
inline double sine(double x) { return std::sin(x); }

/// cos, as `sine`.
inline float cosine(float x) { return sineOf(reduceAngle(x), 1); }
inline double cosine(double x) { return std::cos(x); }

/// atan to about two ulps, as `sine`: of tan(pi / 8) at most, of (x - 1) / (x + 1) or of -1 / x.
inline float arcTangent(float x) {
  const float size = std::abs(x);
  const bool isFar = size > 2.414213562f, isMiddle = size > 0.4142135624f;
  const float middle = (size - 1) / (size + 1), far = -1 / size;
  const float t = isFar ? far : isMiddle ? middle : size, z = t * t;
  float p = 8.05374449538e-2f;
  p = p * z - 1.38776856032e-1f;
  p = p * z + 1.99777106478e-1f;
  p = p * z - 3.33329491539e-1f;
  const float small = p * z * t + t;
  const float begin = isFar ? 1.5707963268f : isMiddle ? 0.7853981634f : 0;
  const float rounded = isFar ? -4.37113883e-8f : isMiddle ? -2.18556941e-8f : 0; // off `begin`
  return std::copysign(begin + (small + rounded), x);
}
inline double arcTangent(double x) { return std::atan(x); }

} // namespace pdc::runtime
