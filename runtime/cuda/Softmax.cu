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

template <int Threads, class T>
__global__ void softmaxRows(SoftmaxFields f, const T *x, T *y) {
  using Row = Team<Threads>;
  const int64_t row = Row::index();
  if (row >= f.outer * f.inner)
    return;
  const T *from = x + firstOf(f, row);
  T *to = y + firstOf(f, row);
  float most = -std::numeric_limits<float>::infinity(), sum = 0;
  for (int64_t k = Row::thread(); k < f.size; k += Threads)
    most = fmaxf(most, float(from[k * f.inner]));
  most = Row::most(most);
  for (int64_t k = Row::thread(); k < f.size; k += Threads)
    sum += expf(float(from[k * f.inner]) - most);
  sum = Row::sum(sum);
  const float shift = logf(sum);
  for (int64_t k = Row::thread(); k < f.size; k += Threads) {
    const float value = float(from[k * f.inner]) - most;
    to[k * f.inner] = T(f.logarithm ? value - shift : expf(value) / sum);
  }
}

/// Softmax: dx = y (dy - sum(dy y)). Its logarithm: dx = dy - exp(y) sum(dy).
template <int Threads, class T>
__global__ void softmaxGradientRows(SoftmaxFields f, const T *dy, const T *y, T *dx) {
  using Row = Team<Threads>;
  const int64_t row = Row::index();
  if (row >= f.outer * f.inner)
    return;
  const int64_t first = firstOf(f, row);
  float sum = 0;
  for (int64_t k = Row::thread(); k < f.size; k += Threads) {
    const int64_t i = first + k * f.inner;
    sum += f.logarithm ? float(dy[i]) : float(dy[i]) * float(y[i]);
  }
  sum = Row::sum(sum);
  for (int64_t k = Row::thread(); k < f.size; k += Threads) {
    const int64_t i = first + k * f.inner;
    const float arriving = float(dy[i]), value = float(y[i]);
    dx[i] = T(f.logarithm ? arriving - expf(value) * sum : value * (arriving - sum));
  }
}

} // namespace

template <class T> void Softmax::operator()(const Run &run, const T *x, T *y) const {
  const TeamShape teams =
      TeamShape::of(fields.outer * fields.inner, fields.size, fields.inner);
  teams.choose([&]<int Threads>(std::integral_constant<int, Threads>) {
    launch(run, teams.blocks, kBlockThreads, softmaxRows<Threads, T>, fields, x, y);
  });
}

template <class T>
void SoftmaxGradient::operator()(const Run &run, const T *dy, const T *y, T *dx) const {
  const TeamShape teams =
      TeamShape::of(fields.outer * fields.inner, fields.size, fields.inner);
  teams.choose([&]<int Threads>(std::integral_constant<int, Threads>) {
    launch(run, teams.blocks, kBlockThreads, softmaxGradientRows<Threads, T>, fields, dy, y, dx);
  });
}

#define PDC_SOFTMAX(T)                                                                             \
  template void Softmax::operator()(const Run &, const T *, T *) const;                            \
  template void SoftmaxGradient::operator()(const Run &, const T *, const T *, T *) const;
PDC_SOFTMAX(float)
PDC_SOFTMAX(BFloat16)
PDC_SOFTMAX(Float16)
#undef PDC_SOFTMAX

} // namespace pdc::runtime::cuda
