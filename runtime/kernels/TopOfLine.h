#pragma once

#include "runtime/kernels/TopK.h"

namespace pdc::runtime {

/// Whether `first`, element a of a line, comes before `second`, its element b.
template <class T>
constexpr bool comesBefore(const TopKFields &f, T first, int64_t a, T second, int64_t b) {
  const bool isNaN = first != first;
  const bool isEqual = first == second || (isNaN && second != second);
  return isEqual ? a < b : (first > second || isNaN) == (f.largest != 0);
}

/// Indices of a line in every `f.inner`-th place, as a heap: each comes before its parent.
template <class T> struct HeapOfLine {
  const TopKFields &f;
  const T *line;
  int64_t *places;

  constexpr int64_t &place(int64_t i) const { return places[i * f.inner]; }
  constexpr bool isBefore(int64_t a, int64_t b) const {
    return comesBefore(f, line[a * f.inner], a, line[b * f.inner], b);
  }
  /// Of `size` places one is free, below which all is a heap: puts an index there or further down.
  constexpr void sink(int64_t at, int64_t index, int64_t size) const {
    for (int64_t child = 2 * at + 1; child < size; child = 2 * at + 1) {
      if (child + 1 < size && isBefore(place(child), place(child + 1)))
        ++child;
      if (isBefore(place(child), index))
        break;
      place(at) = place(child);
      at = child;
    }
    place(at) = index;
  }
};

/// TopK of one of the lines; constexpr, so that CUDA's kernel may call it.
template <class T>
constexpr void topOfLine(const TopKFields &f, int64_t number, const T *x, int64_t *y) {
  const T *line = x + number / f.inner * f.size * f.inner + number % f.inner;
  const HeapOfLine<T> heap{f, line, y + number / f.inner * f.count * f.inner + number % f.inner};
  // 1. Those that stand first in the line, the last of them on top.
  for (int64_t i = f.count; i-- > 0;)
    heap.sink(i, i, f.count);
  // 2. Each other that comes before the last one takes its place.
  for (int64_t i = f.count; i < f.size && f.count > 0; ++i)
    if (heap.isBefore(i, heap.place(0)))
      heap.sink(0, i, f.count);
  // 3. In their order, from behind.
  for (int64_t size = f.count - 1; size > 0; --size) {
    const int64_t last = heap.place(0);
    heap.sink(0, heap.place(size), size);
    heap.place(size) = last;
  }
}

} // namespace pdc::runtime
