#pragma once

#include "runtime/cuda/Lanes.h"
#include "runtime/cuda/Workspace.h"

/// Sums over the rows of a matrix, for each of its columns: gradients of biases, statistics of
/// channels. Two stages in fixed order: blocks sum chunks of rows, then others add the chunks of a
/// few columns each. No atomics, so the same bits every time.
namespace pdc::runtime::cuda {

/// The rows of a matrix, cut into chunks each of which lies in one sample.
struct RowChunks {
  int64_t rows, chunks, chunkRows; ///< of a sample, but the last
  int64_t samples;

  RowChunks(int64_t rows, int64_t columns, int64_t samples = 1)
      : rows(rows), chunks(columnChunks(rows, columns, samples)),
        chunkRows(ceilDivide(rows, chunks)), samples(samples) {}
  int64_t all() const { return samples * chunks; }
};

#if defined(__CUDACC__) || defined(PDC_CUDA_THREADS)

/// `Count` sums of each of `Width` columns that are made at once.
template <int Count, int Width> struct Sums { Lanes<float, Width> at[Count]; };

/// Adds what the threads of a block hold, `together` of them and others each as far apart, in
/// halves: what thread t < together is left with is the sum of threads t, t + together, ...
template <class T, int Count>
__device__ void addHalves(T (&held)[Count][kBlockThreads], int together) {
  const int thread = int(threadIdx.x);
  __syncthreads();
  for (int half = kBlockThreads / 2; half >= together; half /= 2) {
    if (thread < half)
      for (int k = 0; k < Count; ++k)
        held[k][thread] = held[k][thread] + held[k][thread + half];
    __syncthreads();
  }
}

/// Adds `Rows` rows from `first` on, `apart` from one to the next, in their order. All are fetched
/// before one is used.
template <int Rows, int Count, int Width, class Value, class Numbers>
__device__ void addRows(const Value &value, const Numbers &numbers, int64_t first, int64_t apart,
                        int64_t column, Sums<Count, Width> &sums) {
  decltype(value.template fetched<Width>(first, column)) rows[Rows];
  PDC_UNROLL
  for (int i = 0; i < Rows; ++i)
    rows[i] = value.template fetched<Width>(first + i * apart, column);
  PDC_UNROLL
  for (int i = 0; i < Rows; ++i) {
    const Sums<Count, Width> row = value.of(rows[i], numbers);
    if constexpr (requires { value.keep(first, column, row); })
      value.keep(first + i * apart, column, row);
    for (int k = 0; k < Count; ++k)
      sums.at[k] = sums.at[k] + row.at[k];
  }
}

/// Of columns from `column` on, those that are there: rows may be padded, not what is made of them.
template <int Width>
__device__ void storeThose(float *to, const Lanes<float, Width> &sums, int64_t column,
                           int64_t columns) {
  if (columns % Width == 0 && column < columns)
    return store(to, sums);
  for (int lane = 0; lane < Width; ++lane)
    if (column + lane < columns)
      to[lane] = sums.at[lane];
}

/// Blocks that a processor has at once, at least. Told nothing, the compiler saves registers for
/// more of them, and has one fetch wait for another.
constexpr int kFewBlocks = 2, kSomeBlocks = 4;

/// Thread (c, r) of a block, of `across` threads in a row, sums rows r, r + 256 / across, ... of
/// its chunk in `Width` columns. parts[(chunk * Count + k) * columns + column], where a sample's
/// chunks come one behind the other.
template <int Count, int Width, class Value>
__global__ void __launch_bounds__(kBlockThreads, Count > 1 ? kFewBlocks : kSomeBlocks)
    sumColumnChunks(RowChunks in, int64_t columns, int across, Value value, float *parts) {
  __shared__ Lanes<float, Width> held[Count][kBlockThreads];
  const int thread = int(threadIdx.x), down = kBlockThreads / across;
  const int64_t groups = ceilDivide(columns, across * Width);
  const int64_t chunk = blockIdx.x / groups;
  const int64_t column = (blockIdx.x % groups * across + thread % across) * Width;
  Sums<Count, Width> sums = {};
  if (column < columns) {
    const int64_t sample = chunk / in.chunks, ofSample = sample * in.rows;
    const int64_t begin = in.chunkRows * (chunk % in.chunks), behind = begin + in.chunkRows;
    const int64_t end = ofSample + (behind < in.rows ? behind : in.rows);
    int64_t r = ofSample + begin + thread / across;
    const auto numbers = numbersOf<Width>(value, sample, column);
    for (; r + (kRowsTogether - 1) * down < end; r += kRowsTogether * down)
      addRows<kRowsTogether>(value, numbers, r, down, column, sums);
    for (; r < end; r += down)
      addRows<1>(value, numbers, r, down, column, sums);
  }
  for (int k = 0; k < Count; ++k)
    held[k][thread] = sums.at[k];
  addHalves(held, across);
  if (thread >= across)
    return;
  for (int k = 0; k < Count; ++k)
    storeThose(parts + (chunk * Count + k) * columns + column, held[k][thread], column, columns);
}

/// Columns that a block of the second stage finishes.
inline constexpr int kFinished = 8;

/// finish(column, sums in f64) for each column.
template <int Count, class Finish>
__global__ void sumChunks(int64_t columns, int64_t chunks, const float *parts, Finish finish) {
  __shared__ double held[Count][kBlockThreads];
  const int thread = int(threadIdx.x);
  const int64_t column = int64_t(blockIdx.x) * kFinished + thread % kFinished;
  double sums[Count] = {};
  if (column < columns)
    for (int64_t chunk = thread / kFinished; chunk < chunks; chunk += kBlockThreads / kFinished)
      for (int k = 0; k < Count; ++k)
        sums[k] += parts[(chunk * Count + k) * columns + column];
  for (int k = 0; k < Count; ++k)
    held[k][thread] = sums[k];
  addHalves(held, kFinished);
  if (thread >= kFinished || column >= columns)
    return;
  for (int k = 0; k < Count; ++k)
    sums[k] = held[k][thread];
  finish(column, sums);
}

template <int Count, int Width, class Value>
void startColumnChunks(const Run &run, const RowChunks &in, int64_t columns, const Value &value,
                       float *parts) {
  int across = kWarpThreads;
  while (across > 8 && across / 2 * Width >= columns)
    across /= 2;
  launch(run, in.all() * ceilDivide(columns, across * Width), kBlockThreads,
         sumColumnChunks<Count, Width, Value>, in, columns, across, value, parts);
}

/// The first stage, into the workspace; of what `value` makes of `Width` columns from `column` on
/// of a row: fetched<Width>(row, column) only reads, of(that, numbersOf the sample and the column)
/// returns Sums<Count, Width>. It may have keep(row, column, Sums) as well, which writes what it
/// likes of them, and a pitch: elements from one row to the next, of which those behind the columns
/// are read too.
template <int Count, class Value>
const float *sumChunksOfColumns(const Run &run, const RowChunks &in, int64_t columns,
                                const Value &value) {
  float *parts = reinterpret_cast<float *>(run.scratchBase);
  bool comesInFours = columns % kLanes == 0;
  if constexpr (requires { value.pitch; })
    comesInFours = value.pitch % kLanes == 0;
  if (comesInFours)
    startColumnChunks<Count, kLanes>(run, in, columns, value, parts);
  else
    startColumnChunks<Count, 1>(run, in, columns, value, parts);
  return parts;
}

/// The second: calls finish(column, double sums[Count]) with the sums over all chunks.
template <int Count, class Finish>
void addChunks(const Run &run, const RowChunks &in, int64_t columns, const float *parts,
               Finish finish) {
  launch(run, ceilDivide(columns, kFinished), kBlockThreads, sumChunks<Count, Finish>, columns,
         in.all(), parts, finish);
}

/// Both. The workspace has columnSumBytes.
template <int Count, class Value, class Finish>
void sumColumns(const Run &run, int64_t rows, int64_t columns, Value value, Finish finish) {
  const RowChunks in(rows, columns);
  addChunks<Count>(run, in, columns, sumChunksOfColumns<Count>(run, in, columns, value), finish);
}

#endif

} // namespace pdc::runtime::cuda
