#pragma once

#include "runtime/cuda/AttentionPlan.h"
#include "runtime/cuda/Launch.h"
#include "runtime/kernels/AttentionFields.h"
#include "runtime/kernels/Random.h"

/// Which scores and shares of an attention there are.
namespace pdc::runtime::cuda {

#if defined(__CUDACC__) || defined(PDC_CUDA_THREADS)
/// What dropout draws for a row of scores.
struct DrawnRow {
  uint64_t prefix, first, threshold;

  __device__ DrawnRow(const AttentionFields &f, const int64_t *random, int64_t b, int64_t head,
                      int64_t i) {
    const bool counts = f.samples > 1;
    prefix = samplePrefix(random[0], random[1], random[2 + (counts ? b : 0)], f.key);
    first = (((counts ? 0 : b) * f.heads + head) * f.queries + i) * f.keys;
    threshold = static_cast<uint64_t>(f.ratio * 4294967296.0);
  }
  __device__ bool keeps(int64_t j) const { return drawBits(prefix, first + j) >= threshold; }
};

/// By what dropout multiplies a share.
__device__ inline float keptOf(const AttentionFields &f, const int64_t *random, int64_t b,
                               int64_t head, int64_t i, int64_t j) {
  if (!random)
    return 1;
  return DrawnRow(f, random, b, head, i).keeps(j) ? static_cast<float>(1 / (1 - f.ratio)) : 0;
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
