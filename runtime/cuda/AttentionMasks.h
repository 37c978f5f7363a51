#pragma once

#include "runtime/cuda/AttentionPlan.h"
#include "runtime/cuda/Launch.h"
#include "runtime/kernels/AttentionFields.h"
#include "runtime/kernels/Random.h"

/// Which scores and shares of an attention there are.
namespace pdc::runtime::cuda {

#if defined(__CUDACC__) || defined(PDC_CUDA_THREADS)
/// By what dropout multiplies a share.
__device__ inline float keptOf(const AttentionFields &f, const int64_t *random, int64_t b,
                               int64_t head, int64_t i, int64_t j) {
  if (!random)
    return 1;
  const bool counts = f.samples > 1;
  const uint64_t prefix = samplePrefix(random[0], random[1], random[2 + (counts ? b : 0)], f.key);
  const uint64_t element = (((counts ? 0 : b) * f.heads + head) * f.queries + i) * f.keys + j;
  const auto threshold = static_cast<uint64_t>(f.ratio * 4294967296.0);
  return drawBits(prefix, element) >= threshold ? static_cast<float>(1 / (1 - f.ratio)) : 0;
}
#endif

/// The mask that a plan reads: the kernel's, or one that is made of it.
const void *maskFor(const Run &run, const AttentionFields &f, const AttentionPlan &plan,
                    const void *mask);
/// Makes what dropout keeps, where the plan reads it. T: BFloat16, Float16.
template <class T>
AttentionPlan::BeforePart keptFor(const Run &run, const AttentionFields &f,
                                  const AttentionPlan &plan, const int64_t *random);

} // namespace pdc::runtime::cuda
