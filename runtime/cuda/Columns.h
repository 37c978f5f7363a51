#pragma once

#include "runtime/cuda/Launch.h"
#include "runtime/cuda/Workspace.h"

/// Sums over the rows of a matrix, for each of its columns: gradients of biases, statistics of
/// channels. Two stages in fixed order: blocks sum chunks of rows, then one thread per column adds
/// the chunks. No atomics, so the same bits every time.
namespace pdc::runtime::cuda {

#if defined(__CUDACC__) || defined(PDC_CUDA_THREADS)

/// `Count` sums that are made at once.
template <int Count> struct Sums { float at[Count]; };

/// Thread (c, r) of a block sums rows r, r + 8, ... of its chunk in column c of 32.
inline constexpr int kColumnLanes = 32, kRowLanes = kBlockThreads / kColumnLanes;

/// parts[(chunk * Count + k) * columns + column]
template <int Count, class Value>
__global__ void sumColumnChunks(int64_t rows, int64_t columns, int64_t chunkRows, Value value,
                                float *parts) {
  __shared__ float shared[Count][kRowLanes][kColumnLanes];
  const int64_t groups = ceilDivide(columns, kColumnLanes);
  const int64_t chunk = blockIdx.x / groups;
  const int64_t column = blockIdx.x % groups * kColumnLanes + threadIdx.x % kColumnLanes;
  const int row = int(threadIdx.x) / kColumnLanes, lane = int(threadIdx.x) % kColumnLanes;
  Sums<Count> sums = {};
  if (column < columns) {
    const int64_t end = chunkRows * (chunk + 1) < rows ? chunkRows * (chunk + 1) : rows;
    for (int64_t r = chunkRows * chunk + row; r < end; r += kRowLanes) {
      const Sums<Count> next = value(r, column);
      for (int k = 0; k < Count; ++k)
        sums.at[k] += next.at[k];
    }
  }
  for (int k = 0; k < Count; ++k)
    shared[k][row][lane] = sums.at[k];
  __syncthreads();
  if (row != 0 || column >= columns)
    return;
  for (int k = 0; k < Count; ++k) {
    float sum = shared[k][0][lane];
    for (int other = 1; other < kRowLanes; ++other)
      sum += shared[k][other][lane];
    parts[(chunk * Count + k) * columns + column] = sum;
  }
}

/// finish(column, sums in f64) for each column.
template <int Count, class Finish>
__global__ void sumChunks(int64_t columns, int64_t chunks, const float *parts, Finish finish) {
  const int64_t column = globalThread();
  if (column >= columns)
    return;
  double sums[Count] = {};
  for (int64_t chunk = 0; chunk < chunks; ++chunk)
    for (int k = 0; k < Count; ++k)
      sums[k] += parts[(chunk * Count + k) * columns + column];
  finish(column, sums);
}

/// Calls finish(column, double sums[Count]) with the sums over rows of value(row, column), which
/// returns Sums<Count>. `workspace` has columnSumBytes.
template <int Count, class Value, class Finish>
void sumColumns(const Run &run, int64_t rows, int64_t columns, Value value, Finish finish) {
  float *parts = reinterpret_cast<float *>(run.scratchBase);
  const int64_t chunks = columnChunks(rows, columns), chunkRows = ceilDivide(rows, chunks);
  launch(run, chunks * ceilDivide(columns, kColumnLanes), kBlockThreads,
         sumColumnChunks<Count, Value>, rows, columns, chunkRows, value, parts);
  launchOver(run, columns, sumChunks<Count, Finish>, columns, chunks, parts, finish);
}

#endif

} // namespace pdc::runtime::cuda
