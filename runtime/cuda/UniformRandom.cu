#include "runtime/cuda/Kernels.h"
#include "runtime/cuda/Launch.h"
#include "runtime/kernels/Random.h"

namespace pdc::runtime::cuda {

static __global__ void uniformRandomKernel(int64_t samples, int64_t size, uint64_t key,
                                           const int64_t *random, float *y) {
  const int64_t i = globalThread();
  if (i >= samples * size)
    return;
  const uint64_t prefix = samplePrefix(random[0], random[1], random[2 + i / size], key);
  y[i] = uniformNumber(drawBits(prefix, i % size));
}

void UniformRandom::operator()(const Run &run, const int64_t *random, float *y) const {
  const int64_t samples = fields.shape[0], size = fields.shape[1];
  launchOver(run, samples * size, uniformRandomKernel, samples, size, fields.key, random, y);
}

} // namespace pdc::runtime::cuda
