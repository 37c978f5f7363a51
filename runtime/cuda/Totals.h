#pragma once

#include "runtime/cuda/Team.h"
#include "runtime/cuda/Workspace.h"

/// Sums of all that a function gives, in f64 and in fixed order.
namespace pdc::runtime::cuda {

#if defined(__CUDACC__) || defined(PDC_CUDA_THREADS)

/// *total = the sum of value(0) to value(count - 1), by one block, in f64.
template <class Value> __global__ void sumKernel(int64_t count, Value value, float *total) {
  double sum = 0;
  for (int64_t i = threadIdx.x; i < count; i += kBlockThreads)
    sum += value(i);
  sum = Team<kBlockThreads>::sum(sum);
  if (threadIdx.x == 0)
    *total = static_cast<float>(sum);
}

/// parts[b] = the sum over elements b, b + blocks, ... of groups of kBlockThreads.
template <class Value> __global__ void sumParts(int64_t count, Value value, double *parts) {
  double sum = 0;
  for (int64_t i = globalThread(); i < count; i += int64_t(gridDim.x) * kBlockThreads)
    sum += value(i);
  sum = Team<kBlockThreads>::sum(sum);
  if (threadIdx.x == 0)
    parts[blockIdx.x] = sum;
}

struct Loaded {
  const double *parts;
  __device__ double operator()(int64_t i) const { return parts[i]; }
};

/// *total = the sum of value(i), in f64 and in fixed order. Long sums take two stages over
/// kPartialSums numbers at `workspace`.
template <class Value>
void sumAll(const Run &run, int64_t count, Value value, float *total, std::byte *workspace) {
  if (count <= 16 * kBlockThreads)
    return launch(run, 1, kBlockThreads, sumKernel<Value>, count, value, total);
  double *parts = reinterpret_cast<double *>(workspace);
  launch(run, kPartialSums, kBlockThreads, sumParts<Value>, count, value, parts);
  launch(run, 1, kBlockThreads, sumKernel<Loaded>, kPartialSums, Loaded{parts}, total);
}

#endif

} // namespace pdc::runtime::cuda
