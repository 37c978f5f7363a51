#include "runtime/cuda/Columns.h"
#include "runtime/cuda/Kernels.h"
#include "runtime/cuda/Team.h"

#include <cmath>

namespace pdc::runtime::cuda {

namespace {

/// A team per row: the mean first, then the squared deviations from it.
template <int Threads, class T>
__global__ void normaliseRows(LayerNormalizationFields f, const T *x, const float *scale,
                              const float *bias, T *y, float *mean, float *inverse) {
  using Row = Team<Threads>;
  const int64_t row = Row::index(), size = f.size;
  if (row >= f.rows)
    return;
  const T *from = x + row * size;
  float sum = 0, squares = 0;
  for (int64_t k = Row::thread(); k < size; k += Threads)
    sum += float(from[k]);
  sum = Row::sum(sum);
  const float center = f.centred ? sum / static_cast<float>(size) : 0;
  for (int64_t k = Row::thread(); k < size; k += Threads)
    squares += (float(from[k]) - center) * (float(from[k]) - center);
  const double variance = Row::sum(squares) / static_cast<double>(size);
  const float factor = static_cast<float>(1 / sqrt(variance + f.epsilon));
  T *to = y + row * size;
  for (int64_t k = Row::thread(); k < size; k += Threads)
    to[k] = T((float(from[k]) - center) * factor * scale[k] + (bias ? bias[k] : 0.0f));
  if (mean && Row::thread() == 0)
    mean[row] = center;
  if (inverse && Row::thread() == 0)
    inverse[row] = factor;
}

/// With g = dy scale and h the normalised row: dx = inverse (g - mean(g) - h mean(g h)), without
/// mean(g) where rows are not centred.
template <int Threads, class T>
__global__ void rowGradients(int64_t rows, int64_t size, const T *dy, const T *x,
                             const float *scale, const float *mean, const float *inverse, T *dx) {
  using Row = Team<Threads>;
  const int64_t row = Row::index();
  if (row >= rows)
    return;
  const T *from = x + row * size, *gradient = dy + row * size;
  const float center = mean ? mean[row] : 0, factor = inverse[row];
  float sum = 0, product = 0;
  for (int64_t k = Row::thread(); k < size; k += Threads) {
    const float g = float(gradient[k]) * scale[k];
    sum += g;
    product += g * ((float(from[k]) - center) * factor);
  }
  sum = Row::sum(sum);
  sum = mean ? sum / static_cast<float>(size) : 0;
  product = Row::sum(product) / static_cast<float>(size);
  T *to = dx + row * size;
  for (int64_t k = Row::thread(); k < size; k += Threads)
    to[k] = T(factor * (float(gradient[k]) * scale[k] - sum -
                        (float(from[k]) - center) * factor * product));
}

template <class T> struct ScaleMoments {
  const T *dy, *x;
  const float *mean, *inverse;
  int64_t size;
  template <int Width> __device__ Sums<1, Width> at(int64_t row, int64_t k) const {
    Sums<1, Width> sums = {{load<Width>(dy + row * size + k)}};
    const auto value = load<Width>(x + row * size + k);
    const float center = mean ? mean[row] : 0, factor = inverse[row];
    for (int lane = 0; lane < Width; ++lane)
      sums.at[0].at[lane] *= (value.at[lane] - center) * factor;
    return sums;
  }
};

struct StoreSum {
  float *sum;
  bool add;
  __device__ void operator()(int64_t column, const double *sums) const {
    const float value = static_cast<float>(sums[0]);
    sum[column] = add ? sum[column] + value : value;
  }
};

} // namespace

template <class T>
void LayerNormalization::operator()(const Run &run, const T *x, const float *scale,
                                    const float *bias, T *y, float *mean, float *inverse) const {
  const TeamShape teams = TeamShape::of(fields.rows, fields.size);
  launch(run, teams.blocks, kBlockThreads,
         teams.threads == kWarpThreads ? normaliseRows<kWarpThreads, T>
                                       : normaliseRows<kBlockThreads, T>,
         fields, x, scale, bias, y, mean, inverse);
}

template <class T>
void LayerNormalizationInputGradient::operator()(const Run &run, const T *dy, const T *x,
                                                 const float *scale, const float *mean,
                                                 const float *inverse, T *dx) const {
  const TeamShape teams = TeamShape::of(fields.rows, fields.size);
  launch(run, teams.blocks, kBlockThreads,
         teams.threads == kWarpThreads ? rowGradients<kWarpThreads, T>
                                       : rowGradients<kBlockThreads, T>,
         fields.rows, fields.size, dy, x, scale, mean, inverse, dx);
}

template <class T>
void LayerNormalizationScaleGradient::operator()(const Run &run, const T *dy, const T *x,
                                                 const float *mean, const float *inverse,
                                                 float *dscale, bool add) const {
  sumColumns<1>(run, fields.rows, fields.size, ScaleMoments<T>{dy, x, mean, inverse, fields.size},
                StoreSum{dscale, add});
}

#define PDC_LAYER_NORMALIZATION(T)                                                                 \
  template void LayerNormalization::operator()(const Run &, const T *, const float *,              \
                                               const float *, T *, float *, float *) const;        \
  template void LayerNormalizationInputGradient::operator()(                                       \
      const Run &, const T *, const T *, const float *, const float *, const float *, T *) const;  \
  template void LayerNormalizationScaleGradient::operator()(                                       \
      const Run &, const T *, const T *, const float *, const float *, float *, bool) const;
PDC_LAYER_NORMALIZATION(float)
PDC_LAYER_NORMALIZATION(BFloat16)
PDC_LAYER_NORMALIZATION(Float16)
#undef PDC_LAYER_NORMALIZATION

} // namespace pdc::runtime::cuda
