#include "runtime/cuda/Kernels.h"
#include "runtime/cuda/Strides.h"

#include "runtime/Error.h"

#include <limits>
#include <numeric>
#include <string_view>
#include <type_traits>

namespace pdc::runtime::cuda {

namespace {

template <class T> __global__ void fillKernel(int64_t count, T value, T *y) {
  const int64_t i = globalThread();
  if (i < count)
    y[i] = value;
}

template <class T> __global__ void copyKernel(StridedWalk walk, const T *x, T *y) {
  const int64_t i = globalThread();
  if (i < walk.elements)
    y[walk.to(i)] = x[walk.from(i)];
}

constexpr int kTile = 32, kTileRows = 8;

/// Transposes each of `matrices` matrices of rows x columns, through tiles in shared memory so that
/// reads and writes both run along rows.
template <class T>
__global__ void transposeKernel(int64_t rows, int64_t columns, const T *x, T *y) {
  __shared__ T tile[kTile][kTile + 1];
  const int64_t across = ceilDivide(columns, kTile), down = ceilDivide(rows, kTile);
  const int64_t matrix = blockIdx.x / (across * down), left = blockIdx.x % across * kTile;
  const int64_t top = blockIdx.x / across % down * kTile;
  const int lane = int(threadIdx.x) % kTile, line = int(threadIdx.x) / kTile;
  const T *from = x + matrix * rows * columns;
  T *to = y + matrix * rows * columns;
  for (int r = line; r < kTile; r += kTileRows)
    if (top + r < rows && left + lane < columns)
      tile[r][lane] = from[(top + r) * columns + left + lane];
  __syncthreads();
  for (int c = line; c < kTile; c += kTileRows)
    if (left + c < columns && top + lane < rows)
      to[(left + c) * rows + top + lane] = tile[lane][c];
}

/// What stands for a row that an index outside the table picks.
template <class T> PDC_EITHER T nothing() {
  if constexpr (std::is_integral_v<T>)
    return T(0);
  else
    return static_cast<T>(std::numeric_limits<float>::quiet_NaN());
}

/// -1: outside.
template <class Index> PDC_EITHER int64_t rowOf(const GatherFields &f, Index index) {
  const int64_t row = index < 0 ? index + f.size : index;
  return row < 0 || row >= f.size ? -1 : row;
}

template <class T, class Index>
__global__ void gatherKernel(GatherFields f, const T *x, const Index *indices, T *y) {
  const int64_t i = globalThread();
  if (i >= f.outer * f.count * f.inner)
    return;
  const int64_t slice = i / f.inner, row = rowOf(f, indices[slice % f.count]);
  y[i] = row < 0 ? nothing<T>() : x[(slice / f.count * f.size + row) * f.inner + i % f.inner];
}

/// Columns that one thread sums, and slices that it reads before it adds them.
constexpr int kOwnSums = 4, kReadTogether = 4;
constexpr int64_t kBlockSums = int64_t(kOwnSums) * kBlockThreads;

/// Which threads say yes, in ascending order; how many.
__device__ int listOf(bool isListed, int (&list)[kBlockThreads]) {
  constexpr int warps = kBlockThreads / kWarpThreads;
  __shared__ unsigned votes[warps];
  const int thread = int(threadIdx.x), warp = thread / kWarpThreads, lane = thread % kWarpThreads;
  const unsigned vote = __ballot_sync(0xffffffffu, isListed);
  __syncthreads(); // the last list has been read
  if (lane == 0)
    votes[warp] = vote;
  __syncthreads();
  int before = __popc(vote & ((1u << lane) - 1)), all = 0;
  for (int other = 0; other < warps; ++other) {
    const int count = __popc(votes[other]);
    before += other < warp ? count : 0;
    all += count;
  }
  if (isListed)
    list[before] = thread;
  __syncthreads();
  return all;
}

/// Block (c, k, o): where k is the first to pick its row, adds the slices of all indices that pick
/// it, in ascending order, in columns from c * kBlockSums on.
template <class Index, class T>
__global__ void gatherGradientKernel(GatherFields f, const Index *indices, const T *dy, float *dx) {
  __shared__ int list[kBlockThreads];
  const int64_t chunks = ceilDivide(f.inner, kBlockSums), block = blockIdx.x;
  const int64_t k = block / chunks % f.count, outer = block / chunks / f.count;
  const int64_t row = rowOf(f, indices[k]), first = block % chunks * kBlockSums + threadIdx.x;
  if (row < 0)
    return;
  for (int64_t begin = 0; begin < k; begin += kBlockThreads) {
    const int64_t j = begin + threadIdx.x;
    if (__syncthreads_or(j < k && rowOf(f, indices[j]) == row))
      return;
  }
  float *to = dx + (outer * f.size + row) * f.inner;
  float sums[kOwnSums];
  for (int c = 0; c < kOwnSums; ++c)
    sums[c] = first + c * kBlockThreads < f.inner ? to[first + c * kBlockThreads] : 0;
  for (int64_t begin = k; begin < f.count; begin += kBlockThreads) {
    const int64_t j = begin + threadIdx.x;
    const int listed = listOf(j < f.count && rowOf(f, indices[j]) == row, list);
    for (int at = 0; at < listed; at += kReadTogether) {
      float read[kReadTogether][kOwnSums];
      for (int s = 0; s < kReadTogether; ++s)
        for (int c = 0; c < kOwnSums; ++c)
          if (at + s < listed && first + c * kBlockThreads < f.inner)
            read[s][c] = float(
                dy[(outer * f.count + begin + list[at + s]) * f.inner + first + c * kBlockThreads]);
      for (int s = 0; s < kReadTogether && at + s < listed; ++s)
        for (int c = 0; c < kOwnSums; ++c)
          if (first + c * kBlockThreads < f.inner)
            sums[c] += read[s][c];
    }
  }
  for (int c = 0; c < kOwnSums; ++c)
    if (first + c * kBlockThreads < f.inner)
      to[first + c * kBlockThreads] = sums[c];
}

/// Rows of `bytes` bytes, `from` and `to` apart.
void copyRows(const Run &run, std::byte *y, int64_t to, const std::byte *x, int64_t from,
              int64_t bytes, int64_t rows) {
  if (bytes > 0 && rows > 0)
    require(cudaMemcpy2DAsync(y, size_t(to), x, size_t(from), size_t(bytes), size_t(rows),
                              cudaMemcpyDeviceToDevice, streamOf(run)),
            "cudaMemcpy2DAsync");
}

int64_t sum(const std::vector<int64_t> &values, size_t count) {
  return std::accumulate(values.begin(), values.begin() + int64_t(count), int64_t(0));
}

} // namespace

template <class T> void StridedCopy::operator()(const Run &run, const T *x, T *y) const {
  if (fields.outputElements > 0)
    launchOver(run, fields.outputElements, fillKernel<T>, fields.outputElements,
               static_cast<T>(fields.fill), y);
  const StridedWalk walk(fields.shape, fields.inputStrides, fields.outputStrides);
  launchOver(run, walk.elements, copyKernel<T>, walk, x + fields.inputOffset,
             y + fields.outputOffset);
}

/// Pixels of a sample by channels, or channels by pixels, whichever it comes from.
template <class T> void Reorder::operator()(const Run &run, const T *x, T *y) const {
  const std::string_view from = fields.from, to = fields.to;
  if (from.empty() == to.empty())
    throw Error("reorder '", fields.name, "' from '", from, "' to '", to,
                "' has no CUDA kernel; regenerate the sources with pdc");
  const int64_t samples = fields.shape[0], channels = fields.shape[1];
  const int64_t pixels = std::accumulate(fields.shape.begin() + 2, fields.shape.end(), int64_t(1),
                                         std::multiplies<int64_t>());
  const int64_t rows = from.empty() ? channels : pixels, columns = from.empty() ? pixels : channels;
  launch(run, samples * ceilDivide(rows, kTile) * ceilDivide(columns, kTile), kTile * kTileRows,
         transposeKernel<T>, rows, columns, x, y);
}

void Concat::call(const Run &run, std::initializer_list<const void *> pointers) const {
  const size_t parts = fields.blockBytes.size();
  if (pointers.size() != parts + 1)
    throw Error("concat: called with ", pointers.size(), " tensors, expected ", parts + 1);
  auto *whole = static_cast<std::byte *>(const_cast<void *>(pointers.begin()[parts]));
  const int64_t row = sum(fields.blockBytes, parts);
  for (size_t i = 0; i < parts; ++i)
    copyRows(run, whole + sum(fields.blockBytes, i), row,
             static_cast<const std::byte *>(pointers.begin()[i]), fields.blockBytes[i],
             fields.blockBytes[i], fields.outer);
}

void Split::call(const Run &run, const void *x, std::initializer_list<void *> parts) const {
  if (parts.size() != fields.results.size())
    throw Error("split: called with ", parts.size(), " results, expected ", fields.results.size());
  const int64_t row = sum(fields.blockBytes, fields.blockBytes.size());
  for (size_t i = 0; i < parts.size(); ++i) {
    const size_t part = size_t(fields.results[i]);
    const int64_t bytes = fields.blockBytes.at(part);
    copyRows(run, static_cast<std::byte *>(parts.begin()[i]), bytes,
             static_cast<const std::byte *>(x) + sum(fields.blockBytes, part), row, bytes,
             fields.outer);
  }
}

template <class T, class Index>
void Gather::operator()(const Run &run, const T *x, const Index *indices, T *y) const {
  launchOver(run, fields.outer * fields.count * fields.inner, gatherKernel<T, Index>, fields, x,
             indices, y);
}

template <class Index, class T>
void GatherGradient::operator()(const Run &run, const Index *indices, const T *dy, float *dx,
                                bool add) const {
  if (!add)
    require(cudaMemsetAsync(dx, 0,
                            size_t(fields.outer * fields.size * fields.inner) * sizeof(float),
                            streamOf(run)),
            "cudaMemsetAsync");
  launch(run, fields.outer * fields.count * ceilDivide(fields.inner, kBlockSums), kBlockThreads,
         gatherGradientKernel<Index, T>, fields, indices, dy, dx);
}

#define PDC_MOVEMENT_KERNELS(T)                                                                    \
  template void StridedCopy::operator()(const Run &, const T *, T *) const;                        \
  template void Gather::operator()(const Run &, const T *, const int64_t *, T *) const;            \
  template void Gather::operator()(const Run &, const T *, const int32_t *, T *) const;
PDC_MOVEMENT_KERNELS(float)
PDC_MOVEMENT_KERNELS(BFloat16)
PDC_MOVEMENT_KERNELS(Float16)
PDC_MOVEMENT_KERNELS(int64_t)
PDC_MOVEMENT_KERNELS(int32_t)
PDC_MOVEMENT_KERNELS(uint8_t)
#undef PDC_MOVEMENT_KERNELS
template void Reorder::operator()(const Run &, const float *, float *) const;
template void Reorder::operator()(const Run &, const BFloat16 *, BFloat16 *) const;
template void Reorder::operator()(const Run &, const Float16 *, Float16 *) const;
#define PDC_GATHER_GRADIENT(T)                                                                     \
  template void GatherGradient::operator()(const Run &, const int64_t *, const T *, float *, bool) \
      const;                                                                                       \
  template void GatherGradient::operator()(const Run &, const int32_t *, const T *, float *, bool) \
      const;
PDC_GATHER_GRADIENT(float)
PDC_GATHER_GRADIENT(BFloat16)
PDC_GATHER_GRADIENT(Float16)
#undef PDC_GATHER_GRADIENT

} // namespace pdc::runtime::cuda
