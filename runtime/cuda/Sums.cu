#include "runtime/cuda/Sums.h"

#include "runtime/cuda/Parts.h"

#include <algorithm>
#include <cmath>

/// Shares of a bucket begin at any element, so no thread reads four neighbours at once.
namespace pdc::runtime::cuda {

namespace {

__global__ void addKernel(float *to, const float *from, int64_t count) {
  overSpread(
      count, [&](int64_t i) { return to[i] + from[i]; },
      [&](int64_t i, float sum) { to[i] = sum; });
}

__global__ void divideKernel(float *values, float by, int64_t count) {
  if (int64_t i = globalThread(); i < count)
    values[i] /= by;
}

__global__ void fillOne(float *result) { *result = 1; }

/// Elements that a block looks at, of one tensor.
constexpr int64_t kTestedElements = int64_t(64) * kBlockThreads;

struct Tested {
  static constexpr int kMost = 1024;
  int size;
  unsigned firstBlock[kMost + 1];
  const float *values[kMost];
  int64_t counts[kMost];
};
static_assert(sizeof(Tested) + sizeof(float *) <= kParameterBytes);

/// All that write, write the same.
__global__ void testKernel(const __grid_constant__ Tested tensors, float *result) {
  const int i = tensorOf(tensors.firstBlock, tensors.size, blockIdx.x);
  const int64_t begin = (blockIdx.x - tensors.firstBlock[i]) * kTestedElements;
  const int64_t left = tensors.counts[i] - begin;
  const int64_t count = left < kTestedElements ? left : kTestedElements;
  bool allFinite = true;
  for (int64_t e = threadIdx.x; e < count; e += kBlockThreads)
    allFinite &= std::isfinite(tensors.values[i][begin + e]);
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
  launchSpread(runIn(stream), count, addKernel, to, from, count);
}

void divideBy(cudaStream_t stream, float *values, float by, int64_t count) {
  launchOver(runIn(stream), count, divideKernel, values, by, count);
}

void testFinite(cudaStream_t stream, std::span<const std::span<const float>> tensors,
                float *result) {
  launch(runIn(stream), 1, 1, fillOne, result);
  for (size_t first = 0; first < tensors.size(); first += Tested::kMost) {
    Tested tested{};
    for (std::span<const float> values :
         tensors.subspan(first, std::min<size_t>(tensors.size() - first, Tested::kMost))) {
      const int i = tested.size++;
      const auto count = static_cast<int64_t>(values.size());
      tested.values[i] = values.data(), tested.counts[i] = count;
      tested.firstBlock[i + 1] =
          tested.firstBlock[i] + static_cast<unsigned>(ceilDivide(count, kTestedElements));
    }
    launch(runIn(stream), tested.firstBlock[tested.size], kBlockThreads, testKernel, tested,
           result);
  }
}

} // namespace pdc::runtime::cuda
