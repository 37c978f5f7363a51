#include "runtime/cuda/Sums.h"

#include "runtime/cuda/Parts.h"
#include "runtime/cuda/Team.h"
#include "runtime/Error.h"

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

/// Blocks that share a tensor, and elements from which on it has another.
constexpr int64_t kMostShares = 512, kSharedElements = 16 * kBlockThreads;

struct Squared {
  static constexpr int kMost = 256, kMostTerms = 3072;
  int size;
  unsigned firstBlock[kMost + 1];
  int firstTerm[kMost + 1];
  int64_t counts[kMost];
  const float *terms[kMostTerms];

  PDC_EITHER double squareOf(int tensor, int64_t element) const {
    float sum = 0;
    for (int t = firstTerm[tensor]; t < firstTerm[tensor + 1]; ++t)
      sum += terms[t][element];
    return double(sum) * double(sum);
  }
};
static_assert(sizeof(Squared) + sizeof(double *) <= kParameterBytes);

/// shares[block] of what a tensor's blocks take in turns.
__global__ void squareShares(const __grid_constant__ Squared tensors, double *shares) {
  const int i = tensorOf(tensors.firstBlock, tensors.size, blockIdx.x);
  const unsigned first = tensors.firstBlock[i], together = tensors.firstBlock[i + 1] - first;
  double sum = 0;
  for (int64_t e = int64_t(blockIdx.x - first) * kBlockThreads + threadIdx.x; e < tensors.counts[i];
       e += int64_t(together) * kBlockThreads)
    sum += tensors.squareOf(i, e);
  sum = Team<kBlockThreads>::sum(sum);
  if (threadIdx.x == 0)
    shares[blockIdx.x] = sum;
}

/// A block for each tensor.
__global__ void addShares(const __grid_constant__ Squared tensors, const double *shares,
                          double *sums) {
  const unsigned begin = tensors.firstBlock[blockIdx.x], end = tensors.firstBlock[blockIdx.x + 1];
  double sum = 0;
  for (unsigned s = begin + threadIdx.x; s < end; s += kBlockThreads)
    sum += shares[s];
  sum = Team<kBlockThreads>::sum(sum);
  if (threadIdx.x == 0)
    sums[blockIdx.x] = sum;
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

size_t squaredTogether(std::span<const AddedTensors> tensors) {
  size_t count = 0, terms = 0;
  while (count < std::min<size_t>(tensors.size(), Squared::kMost) &&
         terms + tensors[count].terms.size() <= Squared::kMostTerms)
    terms += tensors[count++].terms.size();
  if (count == 0)
    throw Error("a weight has ", tensors[0].terms.size(), " uses, and at most ",
                Squared::kMostTerms, " have a norm on a GPU; train without --clip-norm");
  return count;
}

int64_t squaresBytes() {
  return Squared::kMost * (1 + kMostShares) * static_cast<int64_t>(sizeof(double));
}

void addSquares(cudaStream_t stream, std::span<const AddedTensors> tensors, double *workspace) {
  Squared squared{};
  for (const AddedTensors &tensor : tensors) {
    const int i = squared.size++;
    squared.counts[i] = tensor.terms.empty() ? 0 : tensor.count;
    squared.firstBlock[i + 1] =
        squared.firstBlock[i] +
        static_cast<unsigned>(
            std::min(ceilDivide(squared.counts[i], kSharedElements), kMostShares));
    squared.firstTerm[i + 1] = squared.firstTerm[i] + static_cast<int>(tensor.terms.size());
    std::ranges::copy(tensor.terms, squared.terms + squared.firstTerm[i]);
  }
  double *shares = workspace + Squared::kMost;
  launch(runIn(stream), squared.firstBlock[squared.size], kBlockThreads, squareShares, squared,
         shares);
  launch(runIn(stream), squared.size, kBlockThreads, addShares, squared, shares, workspace);
}

} // namespace pdc::runtime::cuda
