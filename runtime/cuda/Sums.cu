#include "runtime/cuda/Sums.h"

#include "runtime/cuda/Launch.h"

#include <cmath>

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

__global__ void fillOne(float *result) { *result = 1; }

/// All that write, write the same.
__global__ void testKernel(const float *values, int64_t count, float *result) {
  const int64_t threads = int64_t(gridDim.x) * blockDim.x;
  bool allFinite = true;
  for (int64_t i = globalThread(); i < count; i += threads)
    allFinite = allFinite && std::isfinite(values[i]);
  if (!allFinite)
    *result = 0;
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

void testFinite(cudaStream_t stream, std::span<const std::span<const float>> tensors,
                float *result) {
  launch(runIn(stream), 1, 1, fillOne, result);
  for (std::span<const float> values : tensors) {
    const auto count = static_cast<int64_t>(values.size());
    launch(runIn(stream), std::min<int64_t>(ceilDivide(count, kBlockThreads), 1024),
           kBlockThreads, testKernel, values.data(), count, result);
  }
}

} // namespace pdc::runtime::cuda
