#pragma once

#include "runtime/kernels/Exponential.h"

namespace pdc::runtime {

/// erf to about two ulps without a branch or a call, as `exponential`: near zero a polynomial, beyond
/// 1 - exp of another.
inline float errorFunction(float x) {
  constexpr float kNear = 0.927734375f, kOne = 4; // from there on erf is 1
  const float size = std::abs(x), t = size > kOne ? kOne : size, s = t * t;
  float near = -5.96761703e-4f;
  near = near * s + 4.99119423e-3f;
  near = near * s - 2.67681349e-2f;
  near = near * s + 1.12819925e-1f;
  near = near * s - 3.76125336e-1f;
  near = near * s + 1.28379166e-1f;
  near = near * t + t;
  float far = (-1.72853470e-5f * t + 3.83197126e-4f) * s + (-3.88396438e-3f * t + 2.42546219e-2f);
  far = far * t - 1.06777877e-1f;
  far = far * t - 6.34846687e-1f;
  far = far * t - 1.28717512e-1f;
  far = 1 - exponential(far * t - t);
  return std::copysign(size > kNear ? far : near, x);
}
inline double errorFunction(double x) { return std::erf(x); }

} // namespace pdc::runtime
