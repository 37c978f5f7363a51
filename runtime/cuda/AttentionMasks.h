#pragma once

#include "runtime/cuda/AttentionPlan.h"
#include "runtime/cuda/Launch.h"
#include "runtime/kernels/AttentionFields.h"
#include "runtime/kernels/Random.h"

/// Which scores and shares of an attention there are.
namespace pdc::runtime::cuda {

#if defined(__CUDACC__) || defined(PDC_CUDA_THREADS)
/// Which shares of one head of a sample dropout keeps; all where nothing is drawn.
class KeptShares {
public:
  __device__ KeptShares(const AttentionFields &f, const int64_t *random, int64_t b, int64_t head)
      : drops(random != nullptr), factor(static_cast<float>(1 / (1 - f.ratio))), keys(f.keys) {
    if (!drops)
      return;
    const int64_t row = b * f.heads + head, each = f.headsOfSample();
    prefix = samplePrefix(random[0], random[1], random[2 + row / each], f.key);
    first = row % each * f.queries * f.keys;
    threshold = dropoutThreshold(f.ratio);
  }
  __device__ bool has(int64_t i, int64_t j) const { return !drops || keeps(bitsFrom(i, j), 0); }
  /// What is drawn for share j of row i and the three behind it.
  __device__ uint64_t bitsFrom(int64_t i, int64_t j) const {
    return dropoutBits(prefix, first + i * keys + j);
  }
  __device__ bool keeps(uint64_t bits, int neighbour) const {
    return dropoutBitsOf(bits, neighbour) >= threshold;
  }
  /// By what a share is multiplied.
  __device__ float factorOf(int64_t i, int64_t j) const {
    return !drops ? 1 : has(i, j) ? factor : 0;
  }

private:
  bool drops;
  float factor;
  int64_t keys;
  uint64_t prefix = 0, first = 0;
  uint32_t threshold = 0;
};
#endif

/// The mask that a plan reads: the kernel's, or one that is made of it.
const void *maskFor(const Run &run, const AttentionFields &f, const AttentionPlan &plan,
                    const void *mask);
/// Makes what dropout keeps, where the plan reads it. T: BFloat16, Float16.
template <class T>
AttentionPlan::PartAction keptFor(const Run &run, const AttentionFields &f,
                                  const AttentionPlan &plan, const int64_t *random);
/// Takes the gradient of the mask from where the plan leaves it, and sums it where samples share
/// the mask. T: BFloat16, Float16.
template <class T>
AttentionPlan::PartAction maskGradientTo(const Run &run, const AttentionFields &f,
                                         const AttentionPlan &plan, float *gradient);

/// Rows that see no key, whose sums a library may have made no numbers, become zeros with a sum of
/// infinity. T: BFloat16, Float16.
template <class T> void clearUnseen(const Run &run, const AttentionFields &f, T *y, float *logSums);

} // namespace pdc::runtime::cuda
