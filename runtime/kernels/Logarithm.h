#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace pdc::runtime {

/// A positive normal number as 2^n (1 + more), with n whole and 1 + more from sqrt(1/2) to sqrt(2).
struct ReducedLogarithm {
  float n, more;
};
inline ReducedLogarithm reduceLogarithm(float x) {
  constexpr uint32_t kLeast = std::bit_cast<uint32_t>(0x1.6a09e6p-1f);
  const uint32_t above = std::bit_cast<uint32_t>(x) - kLeast;
  const int32_t n = static_cast<int32_t>(above) >> 23;
  return {static_cast<float>(n), std::bit_cast<float>((above & 0x7fffff) + kLeast) - 1};
}

/// log(2^n (1 + more)) + rest, where rest is small.
inline float composeLogarithm(ReducedLogarithm x, float rest) {
  const auto [n, more] = x;
  float p = 7.0376836292e-2f;
  p = p * more - 1.1514610310e-1f;
  p = p * more + 1.1676998740e-1f;
  p = p * more - 1.2420140846e-1f;
  p = p * more + 1.4249322787e-1f;
  p = p * more - 1.6668057665e-1f;
  p = p * more + 2.0000714765e-1f;
  p = p * more - 2.4999993993e-1f;
  p = p * more + 3.3333331174e-1f;
  const float square = more * more;
  const float small = (p * more * square + n * -2.12194440e-4f) + rest;
  return (small - 0.5f * square + more) + n * 0.693359375f;
}

/// log to about two ulps without a branch or a call, so that loops over it become vectors; each
/// element has the same bits in a vector as alone.
inline float logarithm(float x) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const bool isSubnormal = x < std::numeric_limits<float>::min();
  ReducedLogarithm reduced = reduceLogarithm(isSubnormal ? x * 0x1p23f : x);
  reduced.n = isSubnormal ? reduced.n - 23 : reduced.n;
  const float found = composeLogarithm(reduced, 0);
  const float atZero = x == 0 ? -kInfinity : found;
  // Of what is below zero, of infinity and of NaN.
  const float above = x < 0 ? kInfinity - kInfinity : atZero;
  return x < kInfinity ? above : x;
}
inline double logarithm(double x) { return std::log(x); }

/// log(1 + x), as `logarithm`: what 1 + x rounds off counts as a part of it.
inline float logarithmOfOneMore(float x) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float sum = 1 + x;
  const float lost = x < 1 ? x - (sum - 1) : 1 - (sum - x);
  const float found = composeLogarithm(reduceLogarithm(sum), sum > 0x1p24f ? 0 : lost / sum);
  const float tiny = std::abs(x) < 0x1p-24f ? x : found; // keeps the sign of zero
  const float atZero = x == -1 ? -kInfinity : tiny;
  const float above = x < -1 ? kInfinity - kInfinity : atZero;
  return x < kInfinity ? above : x;
}
inline double logarithmOfOneMore(double x) { return std::log1p(x); }

} // namespace pdc::runtime
