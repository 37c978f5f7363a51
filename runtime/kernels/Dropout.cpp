#include "runtime/kernels/Dropout.h"

#include "runtime/kernels/DropoutBits.h"

#include <algorithm>

namespace pdc::runtime {

Dropout::Dropout(const Device &device, const DropoutFields &f)
    : fields(f), samples(f.input[0]), threads(device.threads) {
  if (f.layout[0]) {
    ChannelLayout shape(f.input, f.layout);
    channels = shape.channels, pixels = shape.pixels, lanes = shape.lanes;
    return;
  }
  channels = lanes = pixels = 1;
  for (size_t d = 1; d < f.input.size(); ++d)
    pixels *= f.input[d];
}

/// Elements are numbered in row-major order within the sample, whatever the layout.
void Dropout::operator()(const Run &, const float *x, const int64_t *random, float *y) {
  const uint32_t threshold = dropoutThreshold(fields.ratio);
  const float scale = static_cast<float>(1 / (1 - fields.ratio));
  const int64_t blocks = (channels + lanes - 1) / lanes;
#pragma omp parallel for collapse(2) schedule(static) num_threads(threads)
  for (int64_t n = 0; n < samples; ++n)
    for (int64_t block = 0; block < blocks; ++block) {
      const uint64_t prefix = samplePrefix(random[0], random[1], random[2 + n], fields.key);
      const int64_t at = (n * blocks + block) * pixels * lanes;
      const float *from = x + at;
      float *to = y + at;
      if (lanes == 1) {
        for (int64_t first = 0; first < pixels; first += DropoutBits::kCount) {
          const DropoutBits bits(prefix, first);
          const int64_t count = std::min(DropoutBits::kCount, pixels - first);
#pragma omp simd
          for (int64_t i = 0; i < count; ++i)
            to[first + i] = bits[i] >= threshold ? from[first + i] * scale : 0;
        }
        continue;
      }
      for (int64_t p = 0; p < pixels; ++p)
#pragma omp simd
        for (int64_t c = 0; c < lanes; ++c) {
          uint64_t element = static_cast<uint64_t>(block * lanes + c) * pixels + p;
          const bool isKept = dropoutBitsOf(dropoutBits(prefix, element), 0) >= threshold;
          to[p * lanes + c] = isKept ? from[p * lanes + c] * scale : 0;
        }
    }
}

} // namespace pdc::runtime
