#include "runtime/kernels/LayerNormalization.h"

#include "runtime/kernels/LayerNormalizationInputGradient.h"
#include "runtime/kernels/LayerNormalizationScaleGradient.h"

#include <algorithm>
#include <cmath>

namespace pdc::runtime {

/// Fewer elements are not worth waking threads for.
static constexpr int64_t kParallelElements = 16384;

namespace {

struct Statistics {
  float mean, inverse;
};

Statistics statisticsOf(const float *row, const LayerNormalizationFields &fields) {
  const int64_t size = fields.size;
  float sum = 0, squares = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t k = 0; k < size; ++k)
    sum += row[k];
  const float mean = fields.centred ? sum / static_cast<float>(size) : 0;
#pragma omp simd reduction(+ : squares)
  for (int64_t k = 0; k < size; ++k)
    squares += (row[k] - mean) * (row[k] - mean);
  const double variance = squares / static_cast<double>(size);
  return {mean, static_cast<float>(1 / std::sqrt(variance + fields.epsilon))};
}

} // namespace

void LayerNormalization::operator()(const Run &run, const float *x, const float *scale,
                                    const float *bias, float *y) const {
  (*this)(run, x, scale, bias, y, nullptr, nullptr);
}

void LayerNormalization::operator()(const Run &, const float *x, const float *scale,
                                    const float *bias, float *y, float *mean,
                                    float *inverse) const {
  const int64_t size = fields.size;
#pragma omp parallel for schedule(static)                                                          \
    num_threads(threads) if (fields.rows * size >= kParallelElements)
  for (int64_t r = 0; r < fields.rows; ++r) {
    const float *from = x + r * size;
    float *to = y + r * size;
    const Statistics s = statisticsOf(from, fields);
#pragma omp simd
    for (int64_t k = 0; k < size; ++k)
      to[k] = (from[k] - s.mean) * s.inverse * scale[k] + (bias ? bias[k] : 0.0f);
    if (mean)
      mean[r] = s.mean;
    if (inverse)
      inverse[r] = s.inverse;
  }
}

/// With g = dy scale and h the normalised row: dx = inverse (g - mean(g) - h mean(g h)), without
/// mean(g) where rows are not centred.
void LayerNormalizationInputGradient::operator()(const Run &, const float *dy, const float *x,
                                                 const float *scale, const float *mean,
                                                 const float *inverse, float *dx) const {
  const int64_t size = fields.size;
#pragma omp parallel for schedule(static)                                                          \
    num_threads(threads) if (fields.rows * size >= kParallelElements)
  for (int64_t r = 0; r < fields.rows; ++r) {
    const float *from = x + r * size, *gradient = dy + r * size;
    const float middle = mean ? mean[r] : 0, factor = inverse[r];
    float sum = 0, product = 0;
#pragma omp simd reduction(+ : sum, product)
    for (int64_t k = 0; k < size; ++k) {
      sum += gradient[k] * scale[k];
      product += gradient[k] * scale[k] * ((from[k] - middle) * factor);
    }
    sum = mean ? sum / static_cast<float>(size) : 0;
    product /= static_cast<float>(size);
    float *to = dx + r * size;
#pragma omp simd
    for (int64_t k = 0; k < size; ++k)
      to[k] = factor * (gradient[k] * scale[k] - sum - (from[k] - middle) * factor * product);
  }
}

/// A block of columns belongs to one thread; rows are added in groups, which loses fewer digits.
void LayerNormalizationScaleGradient::operator()(const Run &, const float *dy, const float *x,
                                                 const float *mean, const float *inverse,
                                                 float *dscale, bool add) const {
  constexpr int64_t kColumns = 64, kRows = 32;
  const int64_t size = fields.size;
#pragma omp parallel for schedule(static)                                                          \
    num_threads(threads) if (fields.rows * size >= kParallelElements)
  for (int64_t first = 0; first < size; first += kColumns) {
    const int64_t columns = std::min(kColumns, size - first);
    float total[kColumns] = {};
    for (int64_t begin = 0; begin < fields.rows; begin += kRows) {
      float group[kColumns] = {};
      for (int64_t r = begin; r < std::min(begin + kRows, fields.rows); ++r) {
        const float *from = x + r * size + first, *gradient = dy + r * size + first;
        const float middle = mean ? mean[r] : 0, factor = inverse[r];
#pragma omp simd
        for (int64_t k = 0; k < columns; ++k)
          group[k] += gradient[k] * ((from[k] - middle) * factor);
      }
      for (int64_t k = 0; k < columns; ++k)
        total[k] += group[k];
    }
    for (int64_t k = 0; k < columns; ++k)
      dscale[first + k] = add ? dscale[first + k] + total[k] : total[k];
  }
}

} // namespace pdc::runtime
