#include "runtime/kernels/Softmax.h"

#include "runtime/kernels/SoftmaxGradient.h"
#include "runtime/kernels/SoftmaxRows.h"

#include <cmath>

namespace pdc::runtime {

using softmax::forEachBlock, softmax::forEachVector, softmax::LaneValues, softmax::RowScale;

void Softmax::operator()(const Run &, const float *x, float *y) const {
  forEachBlock(fields, threads, [=, this](int64_t block, int64_t rows) {
    const float *from = x + block;
    float *to = y + block;
    const RowScale scale(fields, from, rows);
    if (!fields.logarithm)
      return forEachVector(fields, rows, [&](int64_t at, auto lanes) {
#pragma omp simd
        for (int64_t l = 0; l < lanes; ++l)
          to[at + l] = exponential(from[at + l] - scale.most.lane[l]) / scale.sum.lane[l];
      });
    LaneValues shift(0);
    for (int64_t l = 0; l < softmax::kLanes; ++l)
      shift.lane[l] = std::log(scale.sum.lane[l]);
    // The largest element first: large ones would swallow the logarithm.
    forEachVector(fields, rows, [&](int64_t at, auto lanes) {
#pragma omp simd
      for (int64_t l = 0; l < lanes; ++l)
        to[at + l] = (from[at + l] - scale.most.lane[l]) - shift.lane[l];
    });
  });
}

/// Softmax: dx = y (dy - sum(dy y)). Its logarithm: dx = dy - exp(y) sum(dy).
void SoftmaxGradient::operator()(const Run &, const float *dy, const float *y, float *dx) const {
  forEachBlock(fields, threads, [=, this](int64_t block, int64_t rows) {
    const float *slope = dy + block, *result = y + block;
    float *to = dx + block;
    const bool isLogarithm = fields.logarithm != 0;
    LaneValues sum(0);
    forEachVector(fields, rows, [&](int64_t at, auto lanes) {
      for (int64_t l = 0; l < lanes; ++l)
        sum.lane[l] += isLogarithm ? slope[at + l] : slope[at + l] * result[at + l];
    });
    merge(fields, sum, [](float a, float b) { return a + b; });
    forEachVector(fields, rows, [&](int64_t at, auto lanes) {
#pragma omp simd
      for (int64_t l = 0; l < lanes; ++l)
        to[at + l] = isLogarithm ? slope[at + l] - exponential(result[at + l]) * sum.lane[l]
                                 : result[at + l] * (slope[at + l] - sum.lane[l]);
    });
  });
}

} // namespace pdc::runtime
