#include "runtime/cuda/Kernels.h"
#include "runtime/cuda/Launch.h"
#include "runtime/kernels/Random.h"

#include <numeric>

namespace pdc::runtime::cuda {

/// Elements are numbered in row-major order within their sample, whatever the layout.
static PDC_EITHER int64_t elementNumber(int64_t within, int64_t channels, int64_t pixels,
                                        bool channelsLast) {
  return channelsLast ? within % channels * pixels + within / channels : within;
}

template <class T>
static __global__ void dropoutKernel(int64_t samples, int64_t channels, int64_t pixels,
                                     bool channelsLast, uint64_t key, uint64_t threshold,
                                     float scale, const T *x, const int64_t *random, T *y) {
  const int64_t i = globalThread(), size = channels * pixels;
  if (i >= samples * size)
    return;
  const uint64_t prefix = samplePrefix(random[0], random[1], random[2 + i / size], key);
  const uint64_t element = elementNumber(i % size, channels, pixels, channelsLast);
  y[i] = drawBits(prefix, element) >= threshold ? T(float(x[i]) * scale) : T(0.0f);
}

template <class T>
void Dropout::operator()(const Run &run, const T *x, const int64_t *random, T *y) const {
  const Dimensions &shape = fields.input;
  const bool channelsLast = fields.layout[0] != 0;
  const int64_t samples = shape[0], channels = channelsLast ? shape[1] : 1;
  const int64_t pixels = std::accumulate(shape.begin() + (channelsLast ? 2 : 1), shape.end(),
                                         int64_t(1), std::multiplies<int64_t>());
  launchOver(run, samples * channels * pixels, dropoutKernel<T>, samples, channels, pixels,
             channelsLast, fields.key, static_cast<uint64_t>(fields.ratio * 4294967296.0),
             static_cast<float>(1 / (1 - fields.ratio)), x, random, y);
}

template void Dropout::operator()(const Run &, const float *, const int64_t *, float *) const;
template void Dropout::operator()(const Run &, const BFloat16 *, const int64_t *, BFloat16 *) const;
template void Dropout::operator()(const Run &, const Float16 *, const int64_t *, Float16 *) const;

} // namespace pdc::runtime::cuda
