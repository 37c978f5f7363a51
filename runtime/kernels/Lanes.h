#pragma once

#include <cstdint>

namespace pdc::runtime {

template <int Count> struct LanesVector;
template <> struct LanesVector<1> {
  typedef float Type __attribute__((vector_size(4), aligned(4), may_alias));
};
template <> struct LanesVector<8> {
  typedef float Type __attribute__((vector_size(32), aligned(4), may_alias));
};
template <> struct LanesVector<16> {
  typedef float Type __attribute__((vector_size(64), aligned(4), may_alias));
};

/// `Count` floats that are computed on together: one channel block at one pixel. The compiler
/// splits them on machines with shorter registers, with the same bits.
template <int Count> struct Lanes {
  using Vector = typename LanesVector<Count>::Type;

  static Vector load(const float *p) { return *reinterpret_cast<const Vector *>(p); }
  static void store(float *p, Vector v) { *reinterpret_cast<Vector *>(p) = v; }
  static Vector fill(float value) {
    Vector v = {};
    return v + value;
  }
  /// The first `valid` values; zero beyond.
  static Vector loadPart(const float *p, int64_t valid) {
    Vector v = {};
    for (int i = 0; i < Count && i < valid; ++i)
      v[i] = p[i];
    return v;
  }
  static void storePart(float *p, Vector v, int64_t valid) {
    for (int i = 0; i < Count && i < valid; ++i)
      p[i] = v[i];
  }
};

} // namespace pdc::runtime
