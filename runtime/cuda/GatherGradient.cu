#include "runtime/cuda/Kernels.h"
#include "runtime/cuda/PickedRow.h"
#include "runtime/cuda/Workspace.h"

#include "runtime/Error.h"

#include <limits>
#include <utility>

/// Sorts what indices pick by row, and adds up the slices of each row as a tree: time grows with
/// the number of indices however they lie, and sums have a fixed order without atomics.
namespace pdc::runtime::cuda {

namespace {

constexpr int kDigitBits = 8, kDigits = 1 << kDigitBits;
static_assert(kDigits == kBlockThreads, "a thread for each digit");
static_assert(kPickTile % kBlockThreads == 0, "whole rounds of a block");

/// Slices [sorted by row, those of one row as the indices come].
struct Picks {
  uint32_t *rows, *slices;
};

/// The indices as they come. `size` is the row of those outside the table, which make the first
/// sum NaN: what scatters by them ends in a loss that is refused.
template <class Index> struct GivenPicks {
  GatherFields f;
  const Index *indices;
  float *dx;
  __device__ uint32_t row(int64_t k) const {
    const int64_t row = pickedRow(f, indices[k]);
    if (row < 0)
      *dx = std::numeric_limits<float>::quiet_NaN();
    return static_cast<uint32_t>(row < 0 ? f.size : row);
  }
  __device__ uint32_t slice(int64_t k) const { return static_cast<uint32_t>(k); }
};

/// What an earlier digit has sorted.
struct SortedPicks {
  Picks picks;
  __device__ uint32_t row(int64_t k) const { return picks.rows[k]; }
  __device__ uint32_t slice(int64_t k) const { return picks.slices[k]; }
};

PDC_EITHER int digitOf(uint32_t row, int shift) { return int(row >> shift & (kDigits - 1)); }

/// How often each digit is in each tile: [digit][tile].
template <class From>
__global__ void countDigits(From from, int64_t count, int shift, uint32_t *counts) {
  __shared__ int here[kDigits];
  const int thread = int(threadIdx.x);
  here[thread] = 0;
  __syncthreads();
  for (int64_t round = 0; round < kPickTile; round += kBlockThreads)
    if (const int64_t k = blockIdx.x * kPickTile + round + thread; k < count)
      atomicAdd(&here[digitOf(from.row(k), shift)], 1);
  __syncthreads();
  counts[int64_t(thread) * gridDim.x + blockIdx.x] = uint32_t(here[thread]);
}

/// The sum of what the threads before have; `all`: of the whole block.
__device__ uint32_t sumBefore(uint32_t own, uint32_t &all) {
  __shared__ uint32_t sums[2][kBlockThreads];
  const int thread = int(threadIdx.x);
  uint32_t sum = own;
  int side = 0;
  for (int reach = 1; reach < kBlockThreads; reach *= 2, side ^= 1) {
    sums[side][thread] = sum;
    __syncthreads();
    sum += thread >= reach ? sums[side][thread - reach] : 0;
  }
  sums[side][thread] = sum;
  __syncthreads();
  all = sums[side][kBlockThreads - 1];
  __syncthreads();
  return sum - own;
}

/// Block d makes of digit d's counts how many there are in the tiles before, and of all.
__global__ void sumTiles(int64_t tiles, uint32_t *counts, uint32_t *totals) {
  uint32_t *own = counts + blockIdx.x * tiles, before = 0, all = 0;
  for (int64_t first = 0; first < tiles; first += kBlockThreads, before += all) {
    const int64_t tile = first + threadIdx.x;
    const uint32_t inTile = tile < tiles ? own[tile] : 0;
    const uint32_t sum = before + sumBefore(inTile, all);
    if (tile < tiles)
      own[tile] = sum;
  }
  if (threadIdx.x == 0)
    totals[blockIdx.x] = before;
}

/// Those threads of the warp that have the same digit, and are there.
__device__ unsigned peersOf(bool isThere, int digit) {
  unsigned peers = __ballot_sync(0xffffffffu, isThere);
  for (int bit = 0; bit < kDigitBits; ++bit) {
    const bool isSet = digit >> bit & 1;
    const unsigned vote = __ballot_sync(0xffffffffu, isSet);
    peers &= isSet ? vote : ~vote;
  }
  return peers;
}

/// Puts a tile's picks to where their digit's begin, in the order in which they are. `tilesBefore`:
/// how many of each digit the tiles before have; null where there is one tile.
template <class From>
__global__ void placeByDigit(From from, int64_t count, int shift, const uint32_t *tilesBefore,
                             const uint32_t *totals, Picks to) {
  constexpr int warps = kBlockThreads / kWarpThreads;
  __shared__ uint32_t next[kDigits], inWarp[warps][kDigits];
  const int thread = int(threadIdx.x), warp = thread / kWarpThreads, lane = thread % kWarpThreads;
  uint32_t all;
  next[thread] = sumBefore(totals[thread], all);
  if (tilesBefore)
    next[thread] += tilesBefore[int64_t(thread) * gridDim.x + blockIdx.x];
  for (int64_t round = 0; round < kPickTile; round += kBlockThreads) {
    const int64_t k = blockIdx.x * kPickTile + round + thread;
    const bool isThere = k < count;
    const uint32_t row = isThere ? from.row(k) : 0;
    const int digit = digitOf(row, shift);
    for (int w = 0; w < warps; ++w)
      inWarp[w][thread] = 0;
    __syncthreads();
    const unsigned peers = peersOf(isThere, digit);
    const auto before = uint32_t(__popc(peers & ((1u << lane) - 1)));
    if (isThere && before == 0)
      inWarp[warp][digit] = uint32_t(__popc(peers));
    __syncthreads();
    uint32_t place = next[thread];
    for (int w = 0; w < warps; ++w) {
      const uint32_t here = inWarp[w][thread];
      inWarp[w][thread] = place;
      place += here;
    }
    next[thread] = place;
    __syncthreads();
    if (isThere) {
      const uint32_t at = inWarp[warp][digit] + before;
      to.rows[at] = row, to.slices[at] = from.slice(k);
    }
    __syncthreads();
  }
}

/// Slices of dY in the order of their rows. A column is one of [outer][inner].
template <class T> struct PickedSlices {
  GatherFields f;
  Picks picks;
  const T *dy;
  __device__ uint32_t row(int64_t i) const { return picks.rows[i]; }
  __device__ float at(int64_t i, int64_t outer, int64_t inner) const {
    return float(dy[(outer * f.count + picks.slices[i]) * f.inner + inner]);
  }
};

/// What segments have left of rows that are not theirs alone: [entry][outer][inner]. Entry 2 s is
/// of the row with which segment s begins, 2 s + 1 of that with which it ends; of row `size` where
/// there is nothing.
struct OpenSums {
  GatherFields f;
  uint32_t *rows;
  float *sums;
  __device__ uint32_t row(int64_t i) const { return rows[i]; }
  __device__ float *place(int64_t i, int64_t outer, int64_t inner) const {
    return sums + (i * f.outer + outer) * f.inner + inner;
  }
  __device__ float at(int64_t i, int64_t outer, int64_t inner) const {
    return *place(i, outer, inner);
  }
};

/// One column of a segment: what it adds up, and where it puts that.
struct SegmentColumn {
  OpenSums open;
  float *dx;
  int64_t segment, outer, inner;
  bool beginsBefore, endsBehind;

  __device__ void leave(bool isLast, uint32_t row, float sum) const {
    const int64_t entry = 2 * segment + isLast;
    *open.place(entry, outer, inner) = sum;
    if (outer == 0 && inner == 0)
      open.rows[entry] = row;
  }
  /// A row's slices in the segment: all of them, or such as others have more of.
  __device__ void put(bool isFirst, bool isLast, uint32_t row, float sum) const {
    const auto none = static_cast<uint32_t>(open.f.size);
    const bool isOpenBefore = isFirst && beginsBefore, isOpenBehind = isLast && endsBehind;
    if (isOpenBefore)
      leave(false, row, sum);
    else if (isOpenBehind)
      leave(true, row, sum);
    else if (row != none)
      dx[(outer * open.f.size + row) * open.f.inner + inner] += sum;
    // Between two segments of one row nothing may stand that is of another.
    if (isOpenBefore && isOpenBehind)
      leave(true, row, 0);
  }
  __device__ void leaveNothing() const {
    const auto none = static_cast<uint32_t>(open.f.size);
    if (!beginsBefore)
      leave(false, none, 0);
    if (!endsBehind)
      leave(true, none, 0);
  }
};

/// A thread for each column of each segment.
template <class Slices>
__global__ void sumSegments(Slices slices, int64_t count, OpenSums open, float *dx) {
  constexpr int together = 4;
  const GatherFields &f = open.f;
  const int64_t columns = f.outer * f.inner, segment = globalThread() / columns;
  const int64_t column = globalThread() % columns, begin = segment * kPickSegment;
  if (begin >= count)
    return;
  const int64_t end = begin + kPickSegment < count ? begin + kPickSegment : count;
  const SegmentColumn own{open,
                          dx,
                          segment,
                          column / f.inner,
                          column % f.inner,
                          begin > 0 && slices.row(begin - 1) == slices.row(begin),
                          end < count && slices.row(end) == slices.row(end - 1)};
  if (count > kPickSegment)
    own.leaveNothing();
  uint32_t row = slices.row(begin);
  bool isFirst = true;
  float sum = 0;
  for (int64_t i = begin; i < end; i += together) {
    uint32_t rows[together];
    float values[together];
    PDC_UNROLL
    for (int j = 0; j < together; ++j)
      if (i + j < end)
        rows[j] = slices.row(i + j), values[j] = slices.at(i + j, own.outer, own.inner);
    PDC_UNROLL
    for (int j = 0; j < together; ++j) {
      if (i + j >= end)
        break;
      if (rows[j] != row) {
        own.put(isFirst, false, row, sum);
        row = rows[j], sum = 0, isFirst = false;
      }
      sum += values[j];
    }
  }
  own.put(isFirst, true, row, sum);
}

/// The parts of the workspace, as gatherGradientBytes counts them.
struct Parts {
  Picks sorted[2];
  uint32_t *counts, *totals;
  std::byte *open;

  Parts(const GatherFields &f, std::byte *workspace) {
    auto take = [&](int64_t numbers) {
      return reinterpret_cast<uint32_t *>(std::exchange(workspace, workspace + 4 * numbers));
    };
    for (Picks &picks : sorted)
      picks.rows = take(f.count), picks.slices = take(f.count);
    counts = take(kDigits * pickTiles(f.count));
    totals = take(kDigits);
    open = workspace;
  }
};

template <class From>
void sortByDigit(const Run &run, const Parts &parts, int64_t count, int shift, From from,
                 Picks to) {
  const int64_t tiles = pickTiles(count);
  launch(run, tiles, kBlockThreads, countDigits<From>, from, count, shift, parts.counts);
  const bool isOne = tiles == 1;
  if (!isOne)
    launch(run, kDigits, kBlockThreads, sumTiles, tiles, parts.counts, parts.totals);
  launch(run, tiles, kBlockThreads, placeByDigit<From>, from, count, shift,
         isOne ? nullptr : parts.counts, isOne ? parts.counts : parts.totals, to);
}

template <class Index>
Picks sorted(const Run &run, const Parts &parts, const GatherFields &f, const Index *indices,
             float *dx) {
  sortByDigit(run, parts, f.count, 0, GivenPicks<Index>{f, indices, dx}, parts.sorted[0]);
  int side = 0;
  for (int shift = kDigitBits; f.size >> shift > 0; shift += kDigitBits) {
    sortByDigit(run, parts, f.count, shift, SortedPicks{parts.sorted[side]},
                parts.sorted[1 - side]);
    side = 1 - side;
  }
  return parts.sorted[side];
}

template <class Slices>
void sumRows(const Run &run, const GatherFields &f, Slices slices, int64_t count,
             std::byte *workspace, float *dx) {
  const int64_t entries = openPicks(count), columns = f.outer * f.inner;
  const OpenSums open{f, reinterpret_cast<uint32_t *>(workspace),
                      reinterpret_cast<float *>(workspace + 4 * entries)};
  launchOver(run, ceilDivide(count, kPickSegment) * columns, sumSegments<Slices>, slices, count,
             open, dx);
  if (entries > 0)
    sumRows(run, f, open, entries, workspace + 4 * entries * (1 + columns), dx);
}

} // namespace

template <class Index, class T>
void GatherGradient::operator()(const Run &run, const Index *indices, const T *dy, float *dx,
                                bool add) const {
  const GatherFields &f = fields;
  constexpr int64_t most = std::numeric_limits<uint32_t>::max();
  if (f.size >= most || f.count >= most)
    throw Error("the gradient of a gather of ", f.count, " slices from ", f.size,
                " has no CUDA kernel: both have to be below ", most);
  if (!add)
    require(
        cudaMemsetAsync(dx, 0, size_t(f.outer * f.size * f.inner) * sizeof(float), streamOf(run)),
        "cudaMemsetAsync");
  if (f.outer * f.count * f.inner == 0)
    return;
  const Parts parts(f, run.scratchBase);
  const PickedSlices<T> slices{f, sorted(run, parts, f, indices, dx), dy};
  sumRows(run, f, slices, f.count, parts.open, dx);
}

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
