#pragma once

#include "runtime/kernels/Elementwise.h"

#include <omp.h>

#include <array>
#include <cstdint>
#include <vector>

namespace pdc::runtime {

inline int64_t countOf(const std::vector<int64_t> &shape) {
  int64_t count = 1;
  for (int64_t size : shape)
    count *= size;
  return count;
}

/// Calls visit(a, b, position) for the positions [begin, end) of `shape` in row-major order, with
/// the offsets they have under two sets of strides.
template <class Visit>
void forEachIndex(const std::vector<int64_t> &shape, const std::vector<int64_t> &stridesA,
                  const std::vector<int64_t> &stridesB, int64_t begin, int64_t end, Visit visit) {
  std::array<int64_t, 32> index = {};
  int64_t a = 0, b = 0, rest = begin;
  for (size_t d = shape.size(); d-- > 0 && rest > 0; rest /= shape[d]) {
    index[d] = rest % shape[d];
    a += index[d] * stridesA[d], b += index[d] * stridesB[d];
  }
  for (int64_t position = begin; position < end; ++position) {
    visit(a, b, position);
    for (size_t d = shape.size(); d-- > 0;) {
      a += stridesA[d], b += stridesB[d];
      if (++index[d] < shape[d])
        break;
      a -= stridesA[d] * shape[d], b -= stridesB[d] * shape[d];
      index[d] = 0;
    }
  }
}

/// The same over all positions, shared out among threads where the work, counted in elements, is
/// worth it. Every position is visited by one thread.
template <class Visit>
void forEachIndexInParallel(const std::vector<int64_t> &shape, const std::vector<int64_t> &stridesA,
                            const std::vector<int64_t> &stridesB, int threads, int64_t elements,
                            Visit visit) {
  const int64_t count = countOf(shape);
#pragma omp parallel num_threads(threads) if (elements >= kParallelElements)
  {
    const int64_t parts = omp_get_num_threads(), part = omp_get_thread_num();
    forEachIndex(shape, stridesA, stridesB, count * part / parts, count * (part + 1) / parts,
                 visit);
  }
}

} // namespace pdc::runtime
