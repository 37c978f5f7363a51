#include "runtime/cuda/Kernels.h"
#include "runtime/cuda/Strides.h"
#include "runtime/cuda/Workspace.h"

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
static_assert(kSegment == kBlockThreads, "a thread for each index of a segment");

/// Which threads say yes, in ascending order; how many.
__device__ int listOf(bool isListed, int (&list)[kBlockThreads]) {
  constexpr int warps = kBlockThreads / kWarpThreads;
  __shared__ unsigned votes[warps];
  const int thread = int(threadIdx.x), warp = thread / kWarpThreads, lane = thread % kWarpThreads;
  const unsigned vote = __ballot_sync(0xffffffffu, isListed);
  if (lane == 0)
    votes[warp] = vote;
  __syncthreads(); // the last list has been read, too
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

/// Rows that many indices of one segment pick, and where their sums are.
struct HeavyRows {
  int64_t most;  ///< kHeavyRows of each segment, fewer of the last one
  int64_t *rows; ///< of each segment ascending by their first pick, then -1
  float *sums;   ///< [outer][most][inner]
  HeavyRows(const GatherFields &f, std::byte *workspace)
      : most(gatherHeavyRows(f.count)), rows(reinterpret_cast<int64_t *>(workspace)),
        sums(reinterpret_cast<float *>(rows + most)) {}
  __device__ float *sumOf(const GatherFields &f, int64_t outer, int64_t i) const {
    return sums + (outer * most + i) * f.inner;
  }
  /// -1: the row is none of the segment's.
  __device__ int64_t find(int64_t segment, int64_t row) const {
    for (int64_t i = segment * kHeavyRows; i < most && i < (segment + 1) * kHeavyRows; ++i)
      if (rows[i] == row)
        return i;
    return -1;
  }
};

/// A block per segment.
template <class Index>
__global__ void findHeavyRows(GatherFields f, const Index *indices, HeavyRows heavy) {
  __shared__ int list[kBlockThreads];
  __shared__ int64_t rows[kBlockThreads];
  const int thread = int(threadIdx.x);
  const int64_t j = blockIdx.x * kSegment + thread;
  rows[thread] = j < f.count ? rowOf(f, indices[j]) : -1;
  __syncthreads();
  int64_t picks = 0, before = 0;
  for (int other = 0; other < kBlockThreads; ++other) {
    picks += rows[other] == rows[thread];
    before += other < thread && rows[other] == rows[thread];
  }
  const int listed = listOf(rows[thread] >= 0 && before == 0 && picks >= kHeavyPicks, list);
  const int64_t i = blockIdx.x * kHeavyRows + thread;
  if (thread < kHeavyRows && i < heavy.most)
    heavy.rows[i] = thread < listed ? rows[list[thread]] : -1;
}

/// The columns of a row that a thread sums.
struct OwnColumns {
  int64_t first, inner;
  float sums[kOwnSums];
  __device__ OwnColumns(int64_t first, int64_t inner) : first(first), inner(inner), sums{} {}
  __device__ bool has(int c) const { return first + c * kBlockThreads < inner; }
  template <class T> __device__ void add(const T *row) {
    for (int c = 0; c < kOwnSums; ++c)
      if (has(c))
        sums[c] += float(row[first + c * kBlockThreads]);
  }
  __device__ void store(float *row) const {
    for (int c = 0; c < kOwnSums; ++c)
      if (has(c))
        row[first + c * kBlockThreads] = sums[c];
  }
  /// Of slices from `from` on, those of a list, in its order.
  template <class T> __device__ void add(const T *from, const int *list, int listed) {
    for (int at = 0; at < listed; at += kReadTogether) {
      float read[kReadTogether][kOwnSums];
      for (int s = 0; s < kReadTogether; ++s)
        for (int c = 0; c < kOwnSums; ++c)
          if (at + s < listed && has(c))
            read[s][c] = float(from[list[at + s] * inner + first + c * kBlockThreads]);
      for (int s = 0; s < kReadTogether && at + s < listed; ++s)
        for (int c = 0; c < kOwnSums; ++c)
          if (has(c))
            sums[c] += read[s][c];
    }
  }
};

/// Block (c, i, o): the sum of heavy row i.
template <class Index, class T>
__global__ void sumHeavyRows(GatherFields f, const Index *indices, const T *dy, HeavyRows heavy) {
  __shared__ int list[kBlockThreads];
  const int64_t chunks = ceilDivide(f.inner, kBlockSums), block = blockIdx.x / chunks;
  const int64_t i = block % heavy.most, outer = block / heavy.most, segment = i / kHeavyRows;
  const int64_t row = heavy.rows[i], j = segment * kSegment + threadIdx.x;
  if (row < 0)
    return;
  const int listed = listOf(j < f.count && rowOf(f, indices[j]) == row, list);
  OwnColumns own(blockIdx.x % chunks * kBlockSums + threadIdx.x, f.inner);
  own.add(dy + (outer * f.count + segment * kSegment) * f.inner, list, listed);
  own.store(heavy.sumOf(f, outer, i));
}

/// Block (c, k, o): where k is the first to pick its row, adds the slices of all indices that pick
/// it, segment by segment, in columns from c * kBlockSums on.
template <class Index, class T>
__global__ void gatherGradientKernel(GatherFields f, const Index *indices, const T *dy,
                                     HeavyRows heavy, float *dx) {
  __shared__ int list[kBlockThreads];
  const int64_t chunks = ceilDivide(f.inner, kBlockSums), block = blockIdx.x;
  const int64_t k = block / chunks % f.count, outer = block / chunks / f.count;
  const int64_t row = rowOf(f, indices[k]), first = k / kSegment * kSegment;
  if (row < 0)
    return;
  for (int64_t begin = 0; begin < k; begin += kSegment) {
    const int64_t j = begin + threadIdx.x;
    if (__syncthreads_or(j < k && rowOf(f, indices[j]) == row))
      return;
  }
  float *to = dx + (outer * f.size + row) * f.inner;
  OwnColumns own(block % chunks * kBlockSums + threadIdx.x, f.inner);
  own.add(to);
  for (int64_t begin = first; begin < f.count; begin += kSegment) {
    const int64_t i = heavy.find(begin / kSegment, row), j = begin + threadIdx.x;
    if (i >= 0) {
      own.add(heavy.sumOf(f, outer, i));
      continue;
    }
    const int listed = listOf(j < f.count && rowOf(f, indices[j]) == row, list);
    own.add(dy + (outer * f.count + begin) * f.inner, list, listed);
  }
  own.store(to);
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
  const HeavyRows heavy(fields, run.scratchBase);
  const int64_t chunks = fields.outer * ceilDivide(fields.inner, kBlockSums);
  if (heavy.most > 0) {
    launch(run, gatherSegments(fields.count), kBlockThreads, findHeavyRows<Index>, fields, indices,
           heavy);
    launch(run, heavy.most * chunks, kBlockThreads, sumHeavyRows<Index, T>, fields, indices, dy,
           heavy);
  }
  launch(run, fields.count * chunks, kBlockThreads, gatherGradientKernel<Index, T>, fields, indices,
         dy, heavy, dx);
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
