#include "runtime/Error.h"
#include "runtime/cuda/Divisor.h"
#include "runtime/cuda/Kernels.h"
#include "runtime/cuda/Lanes.h"
#include "runtime/kernels/Random.h"

#include <limits>
#include <numeric>

namespace pdc::runtime::cuda {

/// Elements of a sample, where channels are innermost of its pixels; else of one pixel whose
/// channels are all.
struct DroppedSample {
  int64_t size, pixels;
  Divisor<int32_t> channels;
};

/// Chunks of `Width` neighbours that a thread has of one sample: what is drawn for the sample is
/// drawn once for them.
constexpr int kChunks = 4;

/// Elements are numbered in row-major order within their sample, whatever the layout. `pieces`: the
/// blocks of a sample.
template <int Width, class T>
static __global__ void dropoutKernel(DroppedSample of, unsigned pieces, uint64_t key,
                                     uint32_t threshold, float scale, const T *x,
                                     const int64_t *random, T *y) {
  constexpr int kStep = kBlockThreads * Width;
  const int64_t sample = blockIdx.x / pieces, piece = blockIdx.x - sample * pieces;
  const int64_t begin = piece * kChunks * kStep + int64_t(threadIdx.x) * Width;
  if (begin >= of.size)
    return;
  x += sample * of.size, y += sample * of.size;
  Packed<T, Width> read[kChunks];
  PDC_UNROLL
  for (int j = 0; j < kChunks; ++j) {
    const int64_t within = begin + j * kStep;
    read[j] = fetch<Width>(x + (within < of.size ? within : begin));
  }
  const uint64_t prefix = samplePrefix(random[0], random[1], random[2 + sample], key);
  PDC_UNROLL
  for (int j = 0; j < kChunks; ++j) {
    const int64_t within = begin + j * kStep;
    if (within >= of.size)
      return;
    int64_t first = within;
    if (of.pixels > 1) {
      const int32_t pixel = of.channels.quotient(int32_t(within));
      first = (within - int64_t(pixel) * of.channels.value()) * of.pixels + pixel;
    }
    auto values = widened(read[j]);
    const uint64_t bits = dropoutBits(prefix, first);
    for (int lane = 0; lane < Width; ++lane) {
      const uint32_t drawn =
          of.pixels == 1 || lane == 0
              ? dropoutBitsOf(bits, lane)
              : dropoutBitsOf(dropoutBits(prefix, first + lane * of.pixels), 0);
      values.at[lane] = drawn >= threshold ? values.at[lane] * scale : 0.0f;
    }
    store(y + within, values);
  }
}

template <class T>
void Dropout::operator()(const Run &run, const T *x, const int64_t *random, T *y) const {
  const Dimensions &shape = fields.input;
  const int64_t samples = shape[0];
  const int64_t size =
      std::accumulate(shape.begin() + 1, shape.end(), int64_t(1), std::multiplies<int64_t>());
  const int64_t channels = fields.layout[0] != 0 ? shape[1] : size;
  if (samples * size == 0)
    return;
  if (size != channels && size > std::numeric_limits<int32_t>::max())
    throw Error("dropout: an image has ", size, " elements, expected less than 2^31");
  const int width = channels % kLanes == 0 ? kLanes : 1;
  const int64_t pieces = ceilDivide(size, int64_t(kChunks) * kBlockThreads * width);
  launch(run, samples * pieces, kBlockThreads,
         width == kLanes ? dropoutKernel<kLanes, T> : dropoutKernel<1, T>,
         DroppedSample{size, size / channels, Divisor<int32_t>(size == channels ? 1 : channels)},
         unsigned(pieces),
         fields.key, dropoutThreshold(fields.ratio),
         static_cast<float>(1 / (1 - fields.ratio)), x, random, y);
}

template void Dropout::operator()(const Run &, const float *, const int64_t *, float *) const;
template void Dropout::operator()(const Run &, const BFloat16 *, const int64_t *, BFloat16 *) const;
template void Dropout::operator()(const Run &, const Float16 *, const int64_t *, Float16 *) const;

} // namespace pdc::runtime::cuda
