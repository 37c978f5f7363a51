#include "runtime/kernels/ArgMax.h"
#include "runtime/kernels/CumulativeSum.h"
#include "runtime/kernels/Reduce.h"
#include "runtime/kernels/StridedWalk.h"
#include "runtime/kernels/TopOfLine.h"

#include <cmath>
#include <limits>
#include <string_view>

namespace pdc::runtime {

Reduce::Reduce(const Device &device, const ReduceFields &f)
    : fields(f), isMaximum(std::string_view(f.operation) == "maximum"), threads(device.threads) {}

void Reduce::operator()(const Run &, const float *x, float *y) const {
  const int64_t results = product(fields.keptShape), count = product(fields.reducedShape);
#pragma omp parallel for schedule(static)                                                          \
    num_threads(threads) if (results * count >= kParallelWalk)
  for (int64_t i = 0; i < results; ++i) {
    const float *from = x + offsetAt(i, fields.keptShape, fields.keptStrides);
    double result = isMaximum ? -std::numeric_limits<double>::infinity() : 1;
    for (int64_t k = 0; k < count; ++k) {
      const double element = from[offsetAt(k, fields.reducedShape, fields.reducedStrides)];
      if (!isMaximum)
        result *= element;
      else if (!(result >= element) && !std::isnan(result))
        result = element;
    }
    y[i] = static_cast<float>(result);
  }
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
    topOfLine(fields, line, x, y);
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
