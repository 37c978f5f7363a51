#include "runtime/cuda/Kernels.h"
#include "runtime/cuda/Lanes.h"
#include "runtime/kernels/Random.h"

#include <numeric>

namespace pdc::runtime::cuda {

/// A thread per `Width` neighbours of one sample: of one pixel where the channels are innermost.
/// Elements are numbered in row-major order within their sample, whatever the layout.
template <int Width, class T>
static __global__ void dropoutKernel(int64_t samples, int64_t channels, int64_t pixels,
                                     bool channelsLast, uint64_t key, uint64_t threshold,
                                     float scale, const T *x, const int64_t *random, T *y) {
  const int64_t i = globalThread() * Width, size = channels * pixels;
  if (i >= samples * size)
    return;
  const int64_t sample = i / size, within = i - sample * size;
  const int64_t pixel = channelsLast ? within / channels : 0, apart = channelsLast ? pixels : 1;
  const int64_t first = channelsLast ? (within - pixel * channels) * pixels + pixel : within;
  const uint64_t prefix = samplePrefix(random[0], random[1], random[2 + sample], key);
  auto values = load<Width>(x + i);
  for (int lane = 0; lane < Width; ++lane)
    values.at[lane] = drawBits(prefix, first + lane * apart) >= threshold
                          ? values.at[lane] * scale
                          : 0.0f;
  store(y + i, values);
}

template <class T>
void Dropout::operator()(const Run &run, const T *x, const int64_t *random, T *y) const {
  const Dimensions &shape = fields.input;
  const bool channelsLast = fields.layout[0] != 0;
  const int64_t samples = shape[0], channels = channelsLast ? shape[1] : 1;
  const int64_t pixels = std::accumulate(shape.begin() + (channelsLast ? 2 : 1), shape.end(),
                                         int64_t(1), std::multiplies<int64_t>());
  const bool inFours = (channelsLast ? channels : pixels) % kLanes == 0;
  launchOver(run, samples * channels * pixels / (inFours ? kLanes : 1),
             inFours ? dropoutKernel<kLanes, T> : dropoutKernel<1, T>, samples, channels, pixels,
             channelsLast, fields.key, static_cast<uint64_t>(fields.ratio * 4294967296.0),
             static_cast<float>(1 / (1 - fields.ratio)), x, random, y);
}

template void Dropout::operator()(const Run &, const float *, const int64_t *, float *) const;
template void Dropout::operator()(const Run &, const BFloat16 *, const int64_t *, BFloat16 *) const;
template void Dropout::operator()(const Run &, const Float16 *, const int64_t *, Float16 *) const;

} // namespace pdc::runtime::cuda
