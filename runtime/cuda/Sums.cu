#include "runtime/cuda/Sums.h"

#include "runtime/cuda/Launch.h"

/// Shares of a bucket begin at any element, so no thread reads four neighbours at once.
namespace pdc::runtime::cuda {

namespace {

__global__ void addKernel(float *to, const float *from, int64_t count) {
  if (int64_t i = globalThread(); i < count)
    to[i] += from[i];
}

__global__ void divideKernel(float *values, float by, int64_t count) {
  if (int64_t i = globalThread(); i < count)
    values[i] /= by;
}

Run runIn(cudaStream_t stream) {
  Run run;
  run.queue = stream;
  return run;
}

} // namespace

void addTo(cudaStream_t stream, float *to, const float *from, int64_t count) {
  launchOver(runIn(stream), count, addKernel, to, from, count);
}

void divideBy(cudaStream_t stream, float *values, float by, int64_t count) {
  launchOver(runIn(stream), count, divideKernel, values, by, count);
}

} // namespace pdc::runtime::cuda
