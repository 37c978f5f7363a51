#include "runtime/cuda/Channels.h"
#include "runtime/cuda/Columns.h"
#include "runtime/cuda/Kernels.h"

#include "runtime/Error.h"

#include <array>
#include <cmath>

namespace pdc::runtime::cuda {

namespace {

/// Operands, then results put into their places; what is not asked for is null.
template <size_t Inputs, size_t Results> struct Pointers {
  std::array<const float *, Inputs> inputs = {};
  std::array<float *, Results> outputs = {};

  Pointers(const BatchNormalizationFields &f, std::initializer_list<const float *> all) {
    if (all.size() != Inputs + f.results.size())
      throw Error("batch normalization: called with ", all.size(), " tensors, expected ",
                  Inputs + f.results.size());
    std::copy_n(all.begin(), Inputs, inputs.begin());
    for (size_t i = 0; i < f.results.size(); ++i)
      outputs.at(f.results[i]) = const_cast<float *>(all.begin()[Inputs + i]);
  }
};

/// Deviations from the channel's first element, which keep digits that plain squares lose.
struct ShiftedMoments {
  const float *x;
  int64_t columns;
  __device__ Sums<2> operator()(int64_t row, int64_t column) const {
    const float d = x[row * columns + column] - x[column];
    return {{d, d * d}};
  }
};

struct FinishStatistics {
  const float *x, *mean, *variance;
  float *newMean, *newVariance, *savedMean, *savedInverse;
  double rows, epsilon;
  float kept, fresh;

  __device__ void operator()(int64_t c, const double *sums) const {
    const double shift = sums[0] / rows;
    const float center = static_cast<float>(x[c] + shift);
    const double spread = sums[1] / rows - shift * shift;
    const float population = static_cast<float>(spread > 0 ? spread : 0);
    savedMean[c] = center;
    savedInverse[c] = static_cast<float>(1 / sqrt(static_cast<double>(population) + epsilon));
    if (newMean)
      newMean[c] = kept * mean[c] + fresh * center;
    if (newVariance)
      newVariance[c] = kept * variance[c] + fresh * population;
  }
};

__global__ void normaliseKernel(int64_t elements, int64_t columns, const float *x,
                                const float *scale, const float *bias, const float *mean,
                                const float *inverse, bool relu, float *y) {
  const int64_t i = globalThread();
  if (i >= elements)
    return;
  const int64_t c = i % columns;
  const float value = (x[i] - mean[c]) * (inverse[c] * scale[c]) + bias[c];
  y[i] = relu && !(value > 0) ? 0 : value;
}

__global__ void inferKernel(int64_t elements, int64_t columns, const float *x, const float *scale,
                            const float *bias, const float *mean, const float *variance,
                            double epsilon, bool relu, float *y) {
  const int64_t i = globalThread();
  if (i >= elements)
    return;
  const int64_t c = i % columns;
  const float inverse = static_cast<float>(1 / sqrt(static_cast<double>(variance[c]) + epsilon));
  const float value = (x[i] - mean[c]) * (inverse * scale[c]) + bias[c];
  y[i] = relu && !(value > 0) ? 0 : value;
}

/// The gradient behind a relu, and that times the normalised element.
struct GradientMoments {
  const float *dy, *y, *x, *mean, *inverse;
  int64_t columns;
  __device__ float arriving(int64_t i) const { return y && !(y[i] > 0) ? 0 : dy[i]; }
  __device__ float normalised(int64_t i, int64_t c) const { return (x[i] - mean[c]) * inverse[c]; }
  __device__ Sums<2> operator()(int64_t row, int64_t c) const {
    const int64_t i = row * columns + c;
    const float g = arriving(i);
    return {{g, g * normalised(i, c)}};
  }
};

struct FinishGradient {
  float *biasSum, *scaleSum, *dscale, *dbias;
  __device__ void operator()(int64_t c, const double *sums) const {
    biasSum[c] = static_cast<float>(sums[0]);
    scaleSum[c] = static_cast<float>(sums[1]);
    if (dbias)
      dbias[c] = biasSum[c];
    if (dscale)
      dscale[c] = scaleSum[c];
  }
};

__global__ void inputGradientKernel(int64_t elements, GradientMoments moments, const float *scale,
                                    const float *biasSum, const float *scaleSum, float rows,
                                    float *dx) {
  const int64_t i = globalThread();
  if (i >= elements)
    return;
  const int64_t c = i % moments.columns;
  const float centred =
      moments.arriving(i) - biasSum[c] / rows - moments.normalised(i, c) * (scaleSum[c] / rows);
  dx[i] = scale[c] * moments.inverse[c] * centred;
}

/// Workspace behind the sums over columns, one number per channel each.
float *behindSums(const Run &run, const Channels &shape, int64_t index) {
  return reinterpret_cast<float *>(run.scratchBase) +
         columnSumBytes(shape.rows, shape.columns, 2) / 4 + index * shape.columns;
}

} // namespace

void BatchNormalization::call(const Run &run, std::initializer_list<const float *> all) const {
  const Pointers<5, 5> p(fields, all);
  const auto [x, scale, bias, mean, variance] = p.inputs;
  auto [y, newMean, newVariance, savedMean, savedInverse] = p.outputs;
  const Channels shape(fields.input);
  savedMean = savedMean ? savedMean : behindSums(run, shape, 0);
  savedInverse = savedInverse ? savedInverse : behindSums(run, shape, 1);
  sumColumns<2>(run, shape.rows, shape.columns, ShiftedMoments{x, shape.columns},
                FinishStatistics{x, mean, variance, newMean, newVariance, savedMean, savedInverse,
                                 static_cast<double>(shape.rows), fields.epsilon,
                                 static_cast<float>(fields.momentum),
                                 static_cast<float>(1 - fields.momentum)});
  if (y)
    launchOver(run, shape.elements(), normaliseKernel, shape.elements(), shape.columns, x, scale,
               bias, savedMean, savedInverse, fields.relu != 0, y);
}

void BatchNormalizationInference::operator()(const Run &run, const float *x, const float *scale,
                                             const float *bias, const float *mean,
                                             const float *variance, float *y) const {
  const Channels shape(fields.input);
  launchOver(run, shape.elements(), inferKernel, shape.elements(), shape.columns, x, scale, bias,
             mean, variance, fields.epsilon, fields.relu != 0, y);
}

static void gradient(const Run &run, const BatchNormalizationFields &fields, const float *dy,
                     const float *y, std::array<const float *, 4> saved,
                     std::array<float *, 3> results) {
  const auto [x, scale, mean, inverse] = saved;
  const auto [dx, dscale, dbias] = results;
  const Channels shape(fields.input);
  const GradientMoments moments{dy, y, x, mean, inverse, shape.columns};
  float *biasSum = behindSums(run, shape, 0), *scaleSum = behindSums(run, shape, 1);
  sumColumns<2>(run, shape.rows, shape.columns, moments,
                FinishGradient{biasSum, scaleSum, dscale, dbias});
  if (dx)
    launchOver(run, shape.elements(), inputGradientKernel, shape.elements(), moments, scale,
               biasSum, scaleSum, static_cast<float>(shape.rows), dx);
}

void BatchNormalizationGradient::call(const Run &run,
                                      std::initializer_list<const float *> all) const {
  if (fields.relu) {
    const Pointers<6, 3> p(fields, all);
    const auto [dy, y, x, scale, mean, inverse] = p.inputs;
    return gradient(run, fields, dy, y, {x, scale, mean, inverse}, p.outputs);
  }
  const Pointers<5, 3> p(fields, all);
  const auto [dy, x, scale, mean, inverse] = p.inputs;
  gradient(run, fields, dy, nullptr, {x, scale, mean, inverse}, p.outputs);
}

} // namespace pdc::runtime::cuda
