#include "runtime/kernels/Softmax.h"

#include "runtime/kernels/SoftmaxGradient.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace pdc::runtime {

/// Calls work(first element of the row) for all rows, in parallel where there are many.
template <class Work> static void forEachRow(const SoftmaxFields &f, int threads, Work work) {
  const int64_t rows = f.outer * f.inner;
#pragma omp parallel for schedule(static) num_threads(threads) if (rows * f.size > 16384)
  for (int64_t r = 0; r < rows; ++r)
    work(r / f.inner * f.size * f.inner + r % f.inner);
}

void Softmax::operator()(const Run &, const float *x, float *y) const {
  const int64_t step = fields.inner, end = fields.size * fields.inner;
  forEachRow(fields, threads, [=, this](int64_t row) {
    const float *from = x + row;
    float *to = y + row;
    float most = -std::numeric_limits<float>::infinity(), sum = 0;
    for (int64_t k = 0; k < end; k += step)
      most = std::max(most, from[k]);
    for (int64_t k = 0; k < end; k += step)
      sum += std::exp(from[k] - most);
    const float shift = std::log(sum);
    for (int64_t k = 0; k < end; k += step)
      to[k] = fields.logarithm ? (from[k] - most) - shift : std::exp(from[k] - most) / sum;
  });
}

/// Softmax: dx = y (dy - sum(dy y)). Its logarithm: dx = dy - exp(y) sum(dy).
void SoftmaxGradient::operator()(const Run &, const float *dy, const float *y, float *dx) const {
  const int64_t step = fields.inner, end = fields.size * fields.inner;
  forEachRow(fields, threads, [=, this](int64_t row) {
    float sum = 0;
    for (int64_t k = row; k < row + end; k += step)
      sum += fields.logarithm ? dy[k] : dy[k] * y[k];
    for (int64_t k = row; k < row + end; k += step)
      dx[k] = fields.logarithm ? dy[k] - std::exp(y[k]) * sum : y[k] * (dy[k] - sum);
  });
}

} // namespace pdc::runtime
