#include "runtime/kernels/UniformRandom.h"

#include "runtime/kernels/Random.h"

namespace pdc::runtime {

void UniformRandom::operator()(const Run &, const int64_t *random, float *y) const {
  const int64_t samples = fields.shape[0], size = fields.shape[1];
#pragma omp parallel for schedule(static) num_threads(threads)
  for (int64_t n = 0; n < samples; ++n) {
    const uint64_t prefix = samplePrefix(random[0], random[1], random[2 + n], fields.key);
    float *to = y + n * size;
#pragma omp simd
    for (int64_t i = 0; i < size; ++i)
      to[i] = uniformNumber(drawBits(prefix, i));
  }
}

} // namespace pdc::runtime
