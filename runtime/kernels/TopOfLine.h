#pragma once

#include "runtime/kernels/TopK.h"

namespace pdc::runtime {

/// Whether element a of a line comes before element b.
template <class T>
constexpr bool comesBefore(const TopKFields &f, const T *line, int64_t a, int64_t b) {
  const T first = line[a * f.inner], second = line[b * f.inner];
  const bool isNaN = first != first;
  const bool isEqual = first == second || (isNaN && second != second);
  return isEqual ? a < b : (first > second || isNaN) == (f.largest != 0);
}

/// TopK of one of the lines; constexpr, so that CUDA's kernel may call it.
template <class T>
constexpr void topOfLine(const TopKFields &f, int64_t number, const T *x, int64_t *y) {
  const T *line = x + number / f.inner * f.size * f.inner + number % f.inner;
  int64_t *to = y + number / f.inner * f.count * f.inner + number % f.inner;
  for (int64_t k = 0; k < f.count; ++k) {
    int64_t best = -1;
    for (int64_t i = 0; i < f.size; ++i) {
      const bool isLeft = k == 0 || comesBefore(f, line, to[(k - 1) * f.inner], i);
      if (isLeft && (best < 0 || comesBefore(f, line, i, best)))
        best = i;
    }
    to[k * f.inner] = best;
  }
}

} // namespace pdc::runtime
