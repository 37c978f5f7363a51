#include "runtime/kernels/ArgMax.h"
#include "runtime/kernels/CumulativeSum.h"
#include "runtime/kernels/Reduce.h"
#include "runtime/kernels/StridedWalk.h"
#include "runtime/kernels/TopK.h"

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

/// Whether element a of a line comes before element b.
static bool comesBefore(const TopKFields &f, const float *line, int64_t a, int64_t b) {
  const float first = line[a * f.inner], second = line[b * f.inner];
  const bool isEqual = first == second || (std::isnan(first) && std::isnan(second));
  const bool isMore = first > second || std::isnan(first);
  return isEqual ? a < b : isMore == (f.largest != 0);
}

void TopK::operator()(const Run &, const float *x, int64_t *y) const {
  const TopKFields &f = fields;
  const int64_t lines = f.outer * f.inner;
#pragma omp parallel for schedule(static) num_threads(threads) if (lines * f.size >= kParallelWalk)
  for (int64_t line = 0; line < lines; ++line) {
    const float *from = x + line / f.inner * f.size * f.inner + line % f.inner;
    int64_t *to = y + line / f.inner * f.count * f.inner + line % f.inner;
    for (int64_t k = 0; k < f.count; ++k) {
      int64_t best = -1;
      for (int64_t i = 0; i < f.size; ++i) {
        const bool isLeft = k == 0 || comesBefore(f, from, to[(k - 1) * f.inner], i);
        if (isLeft && (best < 0 || comesBefore(f, from, i, best)))
          best = i;
      }
      to[k * f.inner] = best;
    }
  }
}

void CumulativeSum::operator()(const Run &, const float *x, float *y) const {
  const int64_t lines = fields.outer * fields.inner;
#pragma omp parallel for schedule(static)                                                          \
    num_threads(threads) if (lines * fields.size >= kParallelWalk)
  for (int64_t line = 0; line < lines; ++line) {
    const int64_t start = line / fields.inner * fields.size * fields.inner + line % fields.inner;
    double sum = 0;
    for (int64_t k = 0; k < fields.size; ++k) {
      const int64_t at = start + (fields.reverse ? fields.size - 1 - k : k) * fields.inner;
      const double with = sum + x[at];
      y[at] = static_cast<float>(fields.exclusive ? sum : with);
      sum = with;
    }
  }
}

} // namespace pdc::runtime
