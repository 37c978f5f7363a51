#pragma once

#include "runtime/cuda/Launch.h"
#include "runtime/kernels/AttentionFields.h"

/// Products of tiles of queries, keys and values. Sums have a fixed order.
namespace pdc::runtime::cuda {

#if defined(__CUDACC__) || defined(PDC_CUDA_THREADS)
constexpr int kTile = 64;  ///< queries, keys, and columns of a result that one block computes
constexpr int kDepth = 32; ///< of a product's step
constexpr int kSide = 16;  ///< a block's threads stand in a square
constexpr int kOwn = kTile / kSide; ///< rows, and columns, of one thread
static_assert(kSide * kSide == kBlockThreads);

/// A head's rows of one operand.
template <class T> struct Rows {
  const T *data;
  int64_t stride, count, width;
  __device__ Rows(const AttentionFields &f, int operand, const T *all, int64_t b, int64_t head) {
    const AttentionRows rows(f, operand);
    data = all + rows.first(b, head), stride = rows.stride(), count = rows.rows;
    width = rows.width;
  }
  __device__ float at(int64_t row, int64_t column) const {
    return row < count && column < width ? float(data[row * stride + column]) : 0;
  }
};

/// What the threads of a block share.
struct Tiles {
  float scores[kTile][kTile + 1]; ///< by query and key, or what is made of them
  union {
    struct {
      float left[kTile][kDepth + 1], right[kTile][kDepth + 1];
    };
    float columns[kTile][kTile];
  };
};

__device__ int ownRow(int r) { return static_cast<int>(threadIdx.x) / kSide + r * kSide; }
__device__ int ownColumn(int c) { return static_cast<int>(threadIdx.x) % kSide + c * kSide; }

/// Over the threads of one row.
template <class Join> __device__ float joinRow(float value, Join join) {
  for (int distance = kSide / 2; distance > 0; distance /= 2)
    value = join(value, __shfl_xor_sync(0xffffffffu, value, distance));
  return value;
}
__device__ float sumRow(float value) {
  return joinRow(value, [](float a, float b) { return a + b; });
}
__device__ float mostOfRow(float value) {
  return joinRow(value, [](float a, float b) { return a > b ? a : b; });
}

using Own = float[kOwn][kOwn]; ///< a thread's part of a tile

/// Of a thread's rows, or columns: unrolled, so that its parts of tiles stay in registers.
template <class Body> __device__ void forOwn(Body body) {
  PDC_UNROLL
  for (int i = 0; i < kOwn; ++i)
    body(i);
}

/// Each row of a times each of b, from these rows on.
template <class T>
__device__ void multiplyRows(const Rows<T> &a, int64_t firstA, const Rows<T> &b, int64_t firstB,
                             Tiles &tiles, Own &products) {
  forOwn([&](int r) { forOwn([&](int c) { products[r][c] = 0; }); });
  for (int64_t first = 0; first < a.width; first += kDepth) {
    __syncthreads(); // what was there has been read
    for (int e = static_cast<int>(threadIdx.x); e < kTile * kDepth; e += kBlockThreads) {
      const int row = e / kDepth, column = e % kDepth;
      tiles.left[row][column] = a.at(firstA + row, first + column);
      tiles.right[row][column] = b.at(firstB + row, first + column);
    }
    __syncthreads();
    for (int x = 0; x < kDepth; ++x)
      forOwn([&](int r) {
        forOwn([&](int c) {
          products[r][c] =
              fmaf(tiles.left[ownRow(r)][x], tiles.right[ownColumn(c)][x], products[r][c]);
        });
      });
  }
}

/// sums += the tile of scores (`isTurned`: its transpose) times `rows` from row `first` on, of
/// whose columns those from `column` on.
template <class T>
__device__ void addProduct(const Rows<T> &rows, int64_t first, int64_t column, bool isTurned,
                           Tiles &tiles, Own &sums) {
  __syncthreads(); // the products have been read
  for (int e = static_cast<int>(threadIdx.x); e < kTile * kTile; e += kBlockThreads)
    tiles.columns[e / kTile][e % kTile] = rows.at(first + e / kTile, column + e % kTile);
  __syncthreads();
  for (int x = 0; x < kTile; ++x)
    forOwn([&](int r) {
      const float score = isTurned ? tiles.scores[x][ownRow(r)] : tiles.scores[ownRow(r)][x];
      forOwn([&](int c) { sums[r][c] = fmaf(score, tiles.columns[x][ownColumn(c)], sums[r][c]); });
    });
}

/// A tile of a result, as far as there is one.
template <class T>
__device__ void store(const AttentionFields &f, int operand, int64_t b, int64_t head, int64_t first,
                      int64_t column, float factor, const Own &sums, T *to) {
  const AttentionRows rows(f, operand);
  forOwn([&](int r) {
    forOwn([&](int c) {
      if (first + ownRow(r) < rows.rows && column + ownColumn(c) < rows.width)
        to[rows.first(b, head) + (first + ownRow(r)) * rows.stride() + column + ownColumn(c)] =
            T(factor * sums[r][c]);
    });
  });
}
#endif

} // namespace pdc::runtime::cuda
