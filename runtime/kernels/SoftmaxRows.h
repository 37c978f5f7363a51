#pragma once

#include "runtime/kernels/Exponential.h"
#include "runtime/kernels/SoftmaxFields.h"

#include <algorithm>
#include <limits>
#include <type_traits>

/// Walks over the rows of a softmax by vectors: along a row whose elements are neighbours,
/// otherwise over rows that lie side by side. A row has the same bits whatever lies beside it, how
/// many threads there are and where its memory starts.
namespace pdc::runtime::softmax {

inline constexpr int64_t kLanes = 16;

/// A number per row or, where a row is walked along, one per lane that `merge` makes one.
struct LaneValues {
  float lane[kLanes];

  explicit LaneValues(float value) { std::fill_n(lane, kLanes, value); }
};

/// Calls work(first element of the block, its rows) for blocks of up to kLanes rows side by side,
/// in parallel where there is much to do.
template <class Work> void forEachBlock(const SoftmaxFields &f, int threads, Work work) {
  const int64_t across = (f.inner + kLanes - 1) / kLanes;
#pragma omp parallel for schedule(static)                                                          \
    num_threads(threads) if (f.outer * f.size * f.inner > 16384)
  for (int64_t block = 0; block < f.outer * across; ++block) {
    const int64_t first = block % across * kLanes;
    work(block / across * f.size * f.inner + first, std::min(kLanes, f.inner - first));
  }
}

/// Calls visit(offset from the block's first element, lanes) for the vectors of a block in
/// ascending order; whole vectors get their lanes as a constant.
template <class Visit> void forEachVector(const SoftmaxFields &f, int64_t rows, Visit visit) {
  const bool isAlong = f.inner == 1;
  const int64_t step = isAlong ? kLanes : f.inner, width = isAlong ? kLanes : rows;
  const int64_t end = f.size * f.inner;
  for (int64_t at = 0; at < end; at += step) {
    const int64_t lanes = std::min(width, end - at);
    if (lanes == kLanes)
      visit(at, std::integral_constant<int64_t, kLanes>());
    else
      visit(at, lanes);
  }
}

/// Of a row that is walked along, what its lanes hold as one number in all of them.
template <class Combine> void merge(const SoftmaxFields &f, LaneValues &values, Combine combine) {
  if (f.inner != 1)
    return;
  for (int64_t half = kLanes / 2; half > 0; half /= 2)
    for (int64_t l = 0; l < half; ++l)
      values.lane[l] = combine(values.lane[l], values.lane[l + half]);
  std::fill_n(values.lane, kLanes, float(values.lane[0]));
}

/// Of each row of a block its largest element, and the sum of exp(element - largest).
struct RowScale {
  LaneValues most{-std::numeric_limits<float>::infinity()}, sum{0};

  RowScale(const SoftmaxFields &f, const float *x, int64_t rows) {
    forEachVector(f, rows, [&](int64_t at, auto lanes) {
      for (int64_t l = 0; l < lanes; ++l)
        most.lane[l] = std::max(most.lane[l], x[at + l]);
    });
    merge(f, most, [](float a, float b) { return std::max(a, b); });
    forEachVector(f, rows, [&](int64_t at, auto lanes) {
      for (int64_t l = 0; l < lanes; ++l)
        sum.lane[l] += exponential(x[at + l] - most.lane[l]);
    });
    merge(f, sum, [](float a, float b) { return a + b; });
  }
};

} // namespace pdc::runtime::softmax
