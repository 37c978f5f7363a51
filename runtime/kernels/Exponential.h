#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace pdc::runtime {

/// A number as exp y = 2^n (1 + less), with n whole.
struct ReducedExponential {
  float n, less;
};
inline ReducedExponential reduceExponential(float y) {
  constexpr float kMagic = 0x1.8p23f; // adding it rounds to a whole number
  const float n = (y * 0x1.715476p0f + kMagic) - kMagic;
  const float r = (y - n * 0x1.63p-1f) - n * -0x1.bd0106p-13f; // y - n log 2
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  return {n, p * r * r + r};
}

/// Two powers of 2 whose product is 2^n, which alone may be no number of f32. Of a NaN they are
/// any.
struct TwoPowers {
  float first, second;
};
inline TwoPowers powersOf(float n) {
  const int32_t whole = static_cast<int32_t>(n == n ? n : 0), half = whole >> 1;
  return {std::bit_cast<float>((half + 127) << 23),
          std::bit_cast<float>((whole - half + 127) << 23)};
}

/// exp to about two ulps without a branch or a call, so that loops over it become vectors; each
/// element has the same bits in a vector as alone.
inline float exponential(float x) {
  constexpr float kMost = 89, kLeast = -104; // beyond these it is infinite or zero
  const float low = x < kLeast ? kLeast : x, y = low > kMost ? kMost : low;
  const auto [n, less] = reduceExponential(y);
  const auto [first, second] = powersOf(n);
  return (less + 1) * first * second;
}
inline double exponential(double x) { return std::exp(x); }

/// exp(x) - 1, as `exponential`.
inline float exponentialLessOne(float x) {
  constexpr float kMost = 89, kLeast = -20; // beyond these it is infinite or -1
  constexpr float kLarge = 30;              // from there on 1 is rounded off
  const float low = x < kLeast ? kLeast : x, y = low > kMost ? kMost : low;
  const auto [n, less] = reduceExponential(y);
  const auto [first, second] = powersOf(n);
  const float power = first * second;
  const float large = (less + 1) * first * second, small = power * less + (power - 1);
  const float found = y > kLarge ? large : small;
  return std::abs(x) < 0x1p-24f ? x : found; // keeps the sign of zero
}
inline double exponentialLessOne(double x) { return std::expm1(x); }

} // namespace pdc::runtime
