#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace pdc::runtime {

namespace detail {

/// log2 of a positive f32, in f64: with s = (m - 1) / (m + 1), log m = 2 (s + s^3 / 3 + ...).
inline double binaryLogarithm(double x) {
  constexpr int64_t kLeast = std::bit_cast<int64_t>(0x1.6a09e667f3bcdp-1); // sqrt(1 / 2)
  const int64_t above = std::bit_cast<int64_t>(x) - kLeast;
  const double m = std::bit_cast<double>((above & 0xfffffffffffff) + kLeast);
  const double s = (m - 1) / (m + 1), z = s * s;
  double p = 1.0 / 13;
  p = p * z + 1.0 / 11;
  p = p * z + 1.0 / 9;
  p = p * z + 1.0 / 7;
  p = p * z + 1.0 / 5;
  p = p * z + 1.0 / 3;
  p = p * z + 1;
  // The whole part as the difference of two f64, as which an integer of 64 bits is no vector.
  const double n = std::bit_cast<double>((above >> 52) + 0x4338000000000000) - 0x1.8p52;
  return n + p * s * 0x1.71547652b82fep1; // 2 / log 2
}

/// 2^t, in f64, of what f32 can hold.
inline double binaryPower(double t) {
  const double low = t < -160 ? -160 : t, most = low > 130 ? 130 : low;
  const double whole = most + 0x1.8p52, f = (most - (whole - 0x1.8p52)) * 0x1.62e42fefa39efp-1;
  double p = 1.0 / 5040;
  p = p * f + 1.0 / 720;
  p = p * f + 1.0 / 120;
  p = p * f + 1.0 / 24;
  p = p * f + 1.0 / 6;
  p = p * f + 0.5;
  p = p * f + 1;
  p = p * f + 1;
  return p * std::bit_cast<double>((std::bit_cast<uint64_t>(whole) + 1023) << 52);
}

} // namespace detail

/// pow to about an ulp without a branch or a call, so that loops over it become vectors; each
/// element has the same bits in a vector as alone.
[[gnu::always_inline]] inline float power(float x, float y) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float size = std::abs(x);
  const float found = static_cast<float>(detail::binaryPower(y * detail::binaryLogarithm(size)));
  const float ofZero = y < 0 ? kInfinity : 0, ofInfinity = y < 0 ? 0 : kInfinity;
  const float ofOne = size == 1 ? 1 : found;
  const float finite = size == 0 ? ofZero : ofOne;
  const float positive = size == kInfinity ? ofInfinity : finite;
  // As sums, of which a compiler knows that exponents that it knows decide them: with rint no loop
  // over such an exponent becomes a vector.
  const double wide = y, half = 0.5 * wide;
  const bool isWhole = (wide + 0x1.8p52) - 0x1.8p52 == wide,
             isOdd = isWhole && (half + 0x1.8p52) - 0x1.8p52 != half;
  const bool isNone = !isWhole && size > 0 && size < kInfinity;
  const float even = isNone ? kInfinity - kInfinity : positive;
  const float negative = isOdd ? -positive : even;
  const float any = std::bit_cast<int32_t>(x) < 0 ? negative : positive;
  const float known = x == x && y == y ? any : x + y;
  return y == 0 || x == 1 ? 1 : known;
}
inline double power(double x, double y) { return std::pow(x, y); }

/// The same of an exponent that stands in the source. As in PyTorch some are products, quotients
/// and roots, of two ulps; a root of a negative number is NaN, even of an infinite one.
[[gnu::always_inline]] inline float knownPower(float x, float y) {
  if (y == 1 || y == -1)
    return y == 1 ? x : 1 / x;
  if (y == 2 || y == 3)
    return y == 2 ? x * x : x * x * x;
  if (y == 0.5f || y == -0.5f)
    return y == 0.5f ? std::sqrt(x) : 1 / std::sqrt(x);
  return power(x, y);
}
inline double knownPower(double x, double y) { return std::pow(x, y); }

} // namespace pdc::runtime
