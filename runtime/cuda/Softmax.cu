#include "runtime/cuda/Kernels.h"
#include "runtime/cuda/Team.h"

#include <cmath>
#include <limits>

namespace pdc::runtime::cuda {

namespace {

/// Element k of row r is at first(r) + k * inner.
PDC_EITHER int64_t firstOf(const SoftmaxFields &f, int64_t row) {
  return row / f.inner * f.size * f.inner + row % f.inner;
}

template <int Threads> __global__ void softmaxRows(SoftmaxFields f, const float *x, float *y) {
  using Row = Team<Threads>;
  const int64_t row = Row::index();
  if (row >= f.outer * f.inner)
    return;
  const float *from = x + firstOf(f, row);
  float *to = y + firstOf(f, row);
  float most = -std::numeric_limits<float>::infinity(), sum = 0;
  for (int64_t k = Row::thread(); k < f.size; k += Threads)
    most = fmaxf(most, from[k * f.inner]);
  most = Row::most(most);
  for (int64_t k = Row::thread(); k < f.size; k += Threads)
    sum += expf(from[k * f.inner] - most);
  sum = Row::sum(sum);
  const float shift = logf(sum);
  for (int64_t k = Row::thread(); k < f.size; k += Threads) {
    const float value = from[k * f.inner] - most;
    to[k * f.inner] = f.logarithm ? value - shift : expf(value) / sum;
  }
}

/// Softmax: dx = y (dy - sum(dy y)). Its logarithm: dx = dy - exp(y) sum(dy).
template <int Threads>
__global__ void softmaxGradientRows(SoftmaxFields f, const float *dy, const float *y, float *dx) {
  using Row = Team<Threads>;
  const int64_t row = Row::index();
  if (row >= f.outer * f.inner)
    return;
  const int64_t first = firstOf(f, row);
  float sum = 0;
  for (int64_t k = Row::thread(); k < f.size; k += Threads) {
    const int64_t i = first + k * f.inner;
    sum += f.logarithm ? dy[i] : dy[i] * y[i];
  }
  sum = Row::sum(sum);
  for (int64_t k = Row::thread(); k < f.size; k += Threads) {
    const int64_t i = first + k * f.inner;
    dx[i] = f.logarithm ? dy[i] - expf(y[i]) * sum : y[i] * (dy[i] - sum);
  }
}

} // namespace

void Softmax::operator()(const Run &run, const float *x, float *y) const {
  const TeamShape teams = TeamShape::of(fields.outer * fields.inner, fields.size);
  launch(run, teams.blocks, kBlockThreads,
         teams.threads == kWarpThreads ? softmaxRows<kWarpThreads> : softmaxRows<kBlockThreads>,
         fields, x, y);
}

void SoftmaxGradient::operator()(const Run &run, const float *dy, const float *y, float *dx) const {
  const TeamShape teams = TeamShape::of(fields.outer * fields.inner, fields.size);
  launch(run, teams.blocks, kBlockThreads,
         teams.threads == kWarpThreads ? softmaxGradientRows<kWarpThreads>
                                       : softmaxGradientRows<kBlockThreads>,
         fields, dy, y, dx);
}

} // namespace pdc::runtime::cuda
