#include "runtime/kernels/ArgMax.h"
#include "runtime/kernels/CumulativeSum.h"
#include "runtime/kernels/Reduce.h"
#include "runtime/kernels/ReduceSum.h"
#include "runtime/kernels/SortLine.h"
#include "runtime/kernels/StridedWalk.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <string_view>

namespace pdc::runtime {

namespace {

/// How elements of a tensor come together: by strides, those of each result and the results.
struct Reduction {
  const Dimensions &keptShape, &keptStrides, &reducedShape, &reducedStrides;
  int threads;

  bool isLong() const { return product(keptShape) * product(reducedShape) >= kParallelWalk; }
  /// Whether neighbouring results read neighbouring elements, and one result does not.
  bool liesInColumns() const {
    return !keptShape.empty() && keptStrides.back() == 1 &&
           (reducedShape.empty() || reducedStrides.back() != 1);
  }
};

/// Elements of a line of memory.
constexpr int64_t kLine = 16;

/// Results side by side, a strip of them at once: each line of memory is read once. Narrower strips
/// give each thread one. `combine(a, element)` from `start` on; `store(result, a)`.
template <class T, class Combine, class Store>
void reduceColumns(const Reduction &r, const float *x, T start, Combine combine, Store store) {
  constexpr int64_t most = 64;
  Dimensions kept = r.keptShape, outer = r.reducedShape;
  const int64_t width = takeInner(kept), blocks = product(kept), inner = takeInner(outer),
                step = r.reducedStrides.empty() ? 0 : r.reducedStrides.back(),
                rows = product(outer);
  const int64_t lines = (blocks * width / r.threads + kLine - 1) / kLine,
                strip = std::clamp(lines * kLine, kLine, most),
                strips = (width + strip - 1) / strip;
#pragma omp parallel for schedule(static) num_threads(r.threads) if (r.isLong())
  for (int64_t part = 0; part < blocks * strips; ++part) {
    const int64_t block = part / strips, first = part % strips * strip,
                  columns = std::min(strip, width - first);
    const float *from = x + offsetAt(block, kept, r.keptStrides) + first;
    T results[most];
    std::fill_n(results, most, start);
    for (int64_t row = 0; row < rows; ++row) {
      const float *begin = from + offsetAt(row, outer, r.reducedStrides);
      for (int64_t i = 0; i < inner; ++i)
        for (int64_t column = 0; column < columns; ++column)
          results[column] = combine(results[column], begin[i * step + column]);
    }
    for (int64_t column = 0; column < columns; ++column)
      store(block * width + first + column, results[column]);
  }
}

/// `from[0]` to `from[count - 1]`, and behind them `start`, into as many lanes.
template <int64_t lanes, class T, class Combine>
void combineLanes(const float *from, int64_t count, T start, Combine combine, T *results) {
#pragma omp simd
  for (int64_t lane = 0; lane < lanes; ++lane)
    results[lane] = combine(results[lane], lane < count ? from[lane] : start);
}

template <int64_t lanes, class T, class Combine> T foldLanes(const T *results, Combine combine) {
  if constexpr (lanes == 1) {
    return results[0];
  } else {
    T halves[lanes / 2];
#pragma omp simd
    for (int64_t lane = 0; lane < lanes / 2; ++lane)
      halves[lane] = combine(results[lane], results[lane + lanes / 2]);
    return foldLanes<lanes / 2>(halves, combine);
  }
}

/// One result after the other; neighbours of a row come together in lanes.
template <class T, class Combine, class Store>
void reduceRows(const Reduction &r, const float *x, T start, Combine combine, Store store) {
  constexpr int64_t lanes = 16;
  Dimensions outer = r.reducedShape;
  const int64_t inner = takeInner(outer), rows = product(outer),
                step = r.reducedStrides.empty() ? 0 : r.reducedStrides.back();
#pragma omp parallel for schedule(static) num_threads(r.threads) if (r.isLong())
  for (int64_t i = 0; i < product(r.keptShape); ++i) {
    const float *from = x + offsetAt(i, r.keptShape, r.keptStrides);
    T results[lanes];
    std::fill_n(results, lanes, start);
    for (int64_t row = 0; row < rows; ++row) {
      const float *begin = from + offsetAt(row, outer, r.reducedStrides);
      if (step == 1) {
        int64_t k = 0;
        for (; k + lanes <= inner; k += lanes)
          combineLanes<lanes>(begin + k, lanes, start, combine, results);
        if (k < inner)
          combineLanes<lanes>(begin + k, inner - k, start, combine, results);
      } else {
        for (int64_t k = 0; k < inner; ++k)
          results[0] = combine(results[0], begin[k * step]);
      }
    }
    store(i, foldLanes<lanes>(results, combine));
  }
}

/// Elements of a result up to which where they lie is worked out once for all results.
constexpr int64_t kFewElements = 16;

/// Results of few elements each, as of an image's neighbours: what is worked out for each is its
/// place.
template <class T, class Combine, class Store>
void reduceFew(const Reduction &r, const float *x, T start, Combine combine, Store store) {
  constexpr int64_t together = 64;
  const int64_t elements = product(r.reducedShape);
  std::array<int64_t, kFewElements> offsets{};
  for (int64_t k = 0; k < elements; ++k)
    offsets[static_cast<size_t>(k)] = offsetAt(k, r.reducedShape, r.reducedStrides);
  Dimensions outer = r.keptShape;
  const int64_t step = outer.empty() ? 0 : r.keptStrides.back(), width = takeInner(outer),
                strips = (width + together - 1) / together, all = product(outer) * strips;
#pragma omp parallel for schedule(static) num_threads(r.threads) if (r.isLong())
  for (int64_t part = 0; part < all; ++part) {
    const int64_t row = part / strips, first = part % strips * together,
                  count = std::min(together, width - first);
    const float *from = x + offsetAt(row, outer, r.keptStrides) + first * step;
    T results[together];
    std::fill_n(results, together, start);
    for (int64_t k = 0; k < elements; ++k)
      for (int64_t i = 0; i < count; ++i)
        results[i] = combine(results[i], from[i * step + offsets[static_cast<size_t>(k)]]);
    for (int64_t i = 0; i < count; ++i)
      store(row * width + first + i, results[i]);
  }
}

template <class T, class Combine, class Store>
void reduce(const Reduction &r, const float *x, T start, Combine combine, Store store) {
  const bool isFew = product(r.reducedShape) <= kFewElements;
  if (r.liesInColumns() && (!isFew || r.keptShape.back() >= kLine))
    reduceColumns(r, x, start, combine, store);
  else if (isFew)
    reduceFew(r, x, start, combine, store);
  else
    reduceRows(r, x, start, combine, store);
}

} // namespace

Reduce::Reduce(const Device &device, const ReduceFields &f)
    : fields(f), isMaximum(std::string_view(f.operation) == "maximum"), threads(device.threads) {}

void Reduce::operator()(const Run &, const float *x, float *y) const {
  const Reduction by{fields.keptShape, fields.keptStrides, fields.reducedShape,
                     fields.reducedStrides, threads};
  auto store = [&](int64_t i, auto result) { y[i] = static_cast<float>(result); };
  // What is no number is neither more nor less, and stays.
  auto larger = [](float a, float b) {
    const float more = a > b ? a : b; // b where one is no number
    return a != a ? a : more;
  };
  if (isMaximum)
    reduce(by, x, -std::numeric_limits<float>::infinity(), larger, store);
  else
    reduce(by, x, 1.0, std::multiplies<double>(), store);
}

ReduceSum::ReduceSum(const Device &device, const ReduceSumFields &f)
    : fields(f), threads(device.threads) {}

void ReduceSum::operator()(const Run &, const float *x, float *y, bool add) {
  reduce({fields.keptShape, fields.keptStrides, fields.sumShape, fields.sumStrides, threads}, x,
         0.0, std::plus<double>(), [&](int64_t i, double sum) {
           const auto value = static_cast<float>(sum * fields.scale);
           y[i] = add ? y[i] + value : value;
         });
}

void ArgMax::operator()(const Run &, const float *x, int64_t *y) const {
  const int64_t lines = fields.outer * fields.inner;
#pragma omp parallel for schedule(static)                                                          \
    num_threads(threads) if (lines * fields.size >= kParallelWalk)
  for (int64_t line = 0; line < lines; ++line) {
    const float *from = x + line / fields.inner * fields.size * fields.inner + line % fields.inner;
    int64_t best = 0;
    for (int64_t k = 1; k < fields.size; ++k) {
      const float value = from[k * fields.inner], most = from[best * fields.inner];
      const bool isMore = value > most || (std::isnan(value) && !std::isnan(most));
      const bool isEqual = value == most || (std::isnan(value) && std::isnan(most));
      if (isMore || (fields.last && isEqual))
        best = k;
    }
    y[line] = best;
  }
}

template <class T>
static void topLines(const TopKFields &fields, int threads, const T *x, int64_t *y) {
  const int64_t lines = fields.outer * fields.inner;
#pragma omp parallel for schedule(static)                                                          \
    num_threads(threads) if (lines * fields.size >= kParallelWalk)
  for (int64_t line = 0; line < lines; ++line)
    sortLine(fields, line, x, y);
}

void TopK::operator()(const Run &, const float *x, int64_t *y) const {
  topLines(fields, threads, x, y);
}

void TopK::operator()(const Run &, const int64_t *x, int64_t *y) const {
  topLines(fields, threads, x, y);
}

/// The sums are kept in Sum.
template <class Sum, class Element>
static void sumLines(const CumulativeSumFields &fields, int threads, const Element *x, Element *y) {
  const int64_t lines = fields.outer * fields.inner;
#pragma omp parallel for schedule(static)                                                          \
    num_threads(threads) if (lines * fields.size >= kParallelWalk)
  for (int64_t line = 0; line < lines; ++line) {
    const int64_t start = line / fields.inner * fields.size * fields.inner + line % fields.inner;
    Sum sum = 0;
    for (int64_t k = 0; k < fields.size; ++k) {
      const int64_t at = start + (fields.reverse ? fields.size - 1 - k : k) * fields.inner;
      const Sum with = sum + x[at];
      y[at] = static_cast<Element>(fields.exclusive ? sum : with);
      sum = with;
    }
  }
}

void CumulativeSum::operator()(const Run &, const float *x, float *y) const {
  sumLines<double>(fields, threads, x, y);
}

void CumulativeSum::operator()(const Run &, const int64_t *x, int64_t *y) const {
  sumLines<int64_t>(fields, threads, x, y);
}

} // namespace pdc::runtime
