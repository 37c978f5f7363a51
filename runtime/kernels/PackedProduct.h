#pragma once

#include "runtime/kernels/Lanes.h"

#include <immintrin.h>

#include <algorithm>
#include <cmath>
#include <cstring>

/// Products of matrices that fit into a core's cache, called by one thread: c [+]= a b, where b was
/// packed into panels of neighbouring columns. Each element is summed in ascending order.
namespace pdc::runtime {

namespace packed {

#ifdef __AVX512F__
inline constexpr int kLanes = 16, kVectors = 4;
#else
inline constexpr int kLanes = 8, kVectors = 2;
#endif
inline constexpr int kRows = 6, kPanel = kLanes * kVectors;
using Values = Lanes<kLanes>;
using Vector = Values::Vector;

inline Vector multiplyAdd(Vector a, Vector b, Vector c) {
#ifdef __AVX512F__
  return Vector(_mm512_fmadd_ps(__m512(a), __m512(b), __m512(c)));
#else
  return Vector(_mm256_fmadd_ps(__m256(a), __m256(b), __m256(c)));
#endif
}

/// Element (i, x) of a matrix is at data[i * row + x * column].
struct Strided {
  const float *data;
  int64_t row, column;
};

/// `Rows` rows of one panel's `Vectors` first vectors, of which `columns` columns are stored.
template <int Rows, int Vectors>
inline void multiplyTile(int64_t inner, Strided a, const float *panel, float *c, int64_t stride,
                         int64_t columns, bool add) {
  Vector sums[Rows][Vectors] = {};
  for (int64_t x = 0; x < inner; ++x) {
    Vector b[Vectors];
    for (int n = 0; n < Vectors; ++n)
      b[n] = Values::load(panel + x * kPanel + n * kLanes);
    for (int i = 0; i < Rows; ++i) {
      const Vector factor = Values::fill(a.data[i * a.row + x * a.column]);
      for (int n = 0; n < Vectors; ++n)
        sums[i][n] = multiplyAdd(factor, b[n], sums[i][n]);
    }
  }
  for (int i = 0; i < Rows; ++i)
    for (int n = 0; n < Vectors; ++n) {
      float *to = c + i * stride + n * kLanes;
      const int64_t left = columns - n * kLanes;
      if (left >= kLanes)
        Values::store(to, add ? Values::load(to) + sums[i][n] : sums[i][n]);
      else
        Values::storePart(to, add ? Values::loadPart(to, left) + sums[i][n] : sums[i][n], left);
    }
}

template <int Vectors>
inline void multiplyPanel(int64_t rows, int64_t inner, Strided a, const float *panel, float *c,
                          int64_t stride, int64_t columns, bool add) {
  auto tile = [&]<int Rows>(int64_t i) {
    multiplyTile<Rows, Vectors>(inner, {a.data + i * a.row, a.row, a.column}, panel, c + i * stride,
                                stride, columns, add);
  };
  int64_t i = 0;
  for (; i + kRows <= rows; i += kRows)
    tile.template operator()<kRows>(i);
  for (; i + 2 <= rows; i += 2)
    tile.template operator()<2>(i);
  if (i < rows)
    tile.template operator()<1>(i);
}

/// factor * b, `inner` rows of `columns` columns, as panels one behind the other; zeros fill the
/// last one.
inline void pack(int64_t inner, int64_t columns, Strided b, float factor, float *to) {
  for (int64_t first = 0; first < columns; first += kPanel)
    for (int64_t part = 0; part < kPanel; part += kLanes) {
      const int64_t at = first + part, valid = std::clamp<int64_t>(columns - at, 0, kLanes);
      float *out = to + first * inner + part;
      const float *from = b.data + at * b.column;
      for (int64_t x = 0; x < inner; ++x, out += kPanel) {
        for (int64_t n = 0; n < valid; ++n)
          out[n] = factor * from[x * b.row + n * b.column];
        for (int64_t n = valid; n < kLanes; ++n)
          out[n] = 0;
      }
    }
}

/// c [+]= a b: c is `rows` x `columns`, `stride` from row to row.
inline void multiply(int64_t rows, int64_t columns, int64_t inner, Strided a, const float *panels,
                     int64_t panelRows, float *c, int64_t stride, bool add) {
  for (int64_t first = 0; first < columns; first += kPanel) {
    const int64_t left = std::min<int64_t>(kPanel, columns - first);
    const float *panel = panels + first * panelRows;
    float *to = c + first;
#ifdef __AVX512F__
    if (left > 3 * kLanes)
      multiplyPanel<4>(rows, inner, a, panel, to, stride, left, add);
    else if (left > 2 * kLanes)
      multiplyPanel<3>(rows, inner, a, panel, to, stride, left, add);
    else
#endif
        if (left > kLanes)
      multiplyPanel<2>(rows, inner, a, panel, to, stride, left, add);
    else
      multiplyPanel<1>(rows, inner, a, panel, to, stride, left, add);
  }
}

/// e to the power of each element, at most 0, to about an ulp; 0 below -87.
inline Vector exponential(Vector x) {
  using Integers = int32_t __attribute__((vector_size(sizeof(Vector))));
  const Vector least = Values::fill(-87), bounded = x < least ? least : x;
  const Vector magic = Values::fill(0x1.8p23f); // adding it rounds to a whole number
  const Vector n = (bounded * 0x1.715476p0f + magic) - magic;
  const Vector r =
      multiplyAdd(n, Values::fill(0x1.bd0106p-13f), bounded - n * Values::fill(0x1.63p-1f));
  Vector p = Values::fill(1.9875691500e-4f);
  for (float c :
       {1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f})
    p = multiplyAdd(p, r, Values::fill(c));
  p = multiplyAdd(p * r, r, r) + 1;
  const Integers bits = (__builtin_convertvector(n, Integers) + 127) << 23;
  Vector power;
  std::memcpy(&power, &bits, sizeof power);
  return x < least ? Vector{} : p * power;
}

inline float largest(Vector v) {
  float most = v[0];
  for (int i = 1; i < kLanes; ++i)
    most = std::max(most, v[i]);
  return most;
}
inline float sum(Vector v) {
  float total = 0;
  for (int i = 0; i < kLanes; ++i)
    total += v[i];
  return total;
}

} // namespace packed

} // namespace pdc::runtime
