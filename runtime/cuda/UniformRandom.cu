#include "runtime/cuda/Kernels.h"
#include "runtime/cuda/Lanes.h"
#include "runtime/kernels/Random.h"

namespace pdc::runtime::cuda {

/// A thread per `Count` neighbours of one sample, whose size is a multiple of them.
template <int Count>
static __global__ void uniformRandomKernel(int64_t samples, int64_t size, uint64_t key,
                                           const int64_t *random, float *y) {
  const int64_t first = globalThread() * Count;
  if (first >= samples * size)
    return;
  const int64_t sample = first / size, element = first - sample * size;
  const uint64_t prefix = samplePrefix(random[0], random[1], random[2 + sample], key);
  Lanes<float, Count> numbers;
  for (int lane = 0; lane < Count; ++lane)
    numbers.at[lane] = uniformNumber(drawBits(prefix, element + lane));
  store<Count>(y + first, numbers);
}

void UniformRandom::operator()(const Run &run, const int64_t *random, float *y) const {
  const int64_t samples = fields.shape[0], size = fields.shape[1], all = samples * size;
  if (size % kLanes == 0)
    launchOver(run, all / kLanes, uniformRandomKernel<kLanes>, samples, size, fields.key, random,
               y);
  else
    launchOver(run, all, uniformRandomKernel<1>, samples, size, fields.key, random, y);
}

} // namespace pdc::runtime::cuda
