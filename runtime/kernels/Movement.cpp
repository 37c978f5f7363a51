#include "runtime/Error.h"
#include "runtime/kernels/Concat.h"
#include "runtime/kernels/Gather.h"
#include "runtime/kernels/GatherGradient.h"
#include "runtime/kernels/OutsideRows.h"
#include "runtime/kernels/ScatterMaximum.h"
#include "runtime/kernels/Split.h"
#include "runtime/kernels/StridedCopy.h"
#include "runtime/kernels/StridedWalk.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace pdc::runtime {

StridedCopy::StridedCopy(const Device &device, const StridedCopyFields &f)
    : fields(f), threads(device.threads) {}

/// Edge of the squares in which a matrix is transposed: each line of the cache is read and written
/// once, however far apart rows lie.
static constexpr int64_t kSquare = 64;

/// Row-major `rows` x `columns` elements, `stride` from row to row of `y`, of the transposed matrix
/// `x`, whose columns lie `step` apart.
template <class T>
static void transposeSquare(int64_t rows, int64_t columns, const T *x, int64_t step, T *y,
                            int64_t stride) {
  T square[kSquare][kSquare];
  for (int64_t c = 0; c < columns; ++c)
    if (rows == kSquare)
      std::memcpy(square[c], x + c * step, sizeof square[c]);
    else
      std::copy_n(x + c * step, rows, square[c]);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c)
      y[r * stride + c] = square[c][r];
}

/// Whether each element of a row is written several times, one next to the other.
static bool repeatsElements(const StridedCopyFields &f) {
  const size_t rank = f.shape.size();
  return rank >= 2 && f.inputStrides[rank - 1] == 0 && f.outputStrides[rank - 1] == 1 &&
         f.outputStrides[rank - 2] == f.shape[rank - 1];
}

template <class T>
static void repeatElements(const StridedCopyFields &f, int threads, const T *x, T *y) {
  Dimensions outer = f.shape;
  const int64_t times = takeInner(outer), step = f.inputStrides[outer.size() - 1],
                width = takeInner(outer), rows = product(outer);
#pragma omp parallel for schedule(static)                                                          \
    num_threads(threads) if (rows * width * times >= kParallelWalk)
  for (int64_t row = 0; row < rows; ++row) {
    const T *source = x + f.inputOffset + offsetAt(row, outer, f.inputStrides);
    T *target = y + f.outputOffset + offsetAt(row, outer, f.outputStrides);
    for (int64_t i = 0; i < width; ++i)
      for (int64_t k = 0; k < times; ++k)
        target[i * times + k] = source[i * step];
  }
}

/// Whether the last two dimensions of what is copied are a matrix transposed.
static bool isTransposition(const StridedCopyFields &f) {
  const size_t rank = f.shape.size();
  return rank >= 2 && f.inputStrides[rank - 2] == 1 && f.inputStrides[rank - 1] != 1 &&
         f.outputStrides[rank - 1] == 1 && std::min(f.shape[rank - 2], f.shape[rank - 1]) > 1;
}

template <class T>
static void transpose(const StridedCopyFields &f, int threads, const T *x, T *y) {
  Dimensions outer = f.shape;
  const int64_t columns = takeInner(outer), rows = takeInner(outer);
  const int64_t step = f.inputStrides.back(), stride = f.outputStrides[outer.size()];
  const int64_t bands = (rows + kSquare - 1) / kSquare, all = product(outer) * bands;
#pragma omp parallel for schedule(static)                                                          \
    num_threads(threads) if (all * kSquare * columns >= kParallelWalk)
  for (int64_t band = 0; band < all; ++band) {
    const int64_t row = band % bands * kSquare, matrix = band / bands;
    const T *source = x + f.inputOffset + offsetAt(matrix, outer, f.inputStrides) + row;
    T *target = y + f.outputOffset + offsetAt(matrix, outer, f.outputStrides) + row * stride;
    for (int64_t column = 0; column < columns; column += kSquare)
      transposeSquare(std::min(kSquare, rows - row), std::min(kSquare, columns - column),
                      source + column * step, step, target + column, stride);
  }
}

/// Bytes that are moved together, of any elements.
template <int64_t Bytes> struct Block { std::byte bytes[Bytes]; };

/// Whether rows of a few elements lie together in both tensors, and so do these rows.
static bool movesBlocks(const StridedCopyFields &f) {
  const int64_t inner = f.shape.empty() ? 1 : f.shape.back();
  auto isWhole = [&](const Dimensions &strides, int64_t offset) {
    return strides.back() == 1 && offset % inner == 0 &&
           std::all_of(strides.begin(), strides.end() - 1,
                       [&](int64_t stride) { return stride % inner == 0; });
  };
  return inner > 1 && f.shape.size() > 1 && isWhole(f.inputStrides, f.inputOffset) &&
         isWhole(f.outputStrides, f.outputOffset);
}

/// The same with such a row as one element.
static StridedCopyFields inBlocks(StridedCopyFields f) {
  const int64_t inner = takeInner(f.shape);
  for (Dimensions *strides : {&f.inputStrides, &f.outputStrides}) {
    strides->pop_back();
    for (size_t d = 0; d < strides->size(); ++d)
      (*strides)[d] /= inner;
  }
  f.inputOffset /= inner, f.outputOffset /= inner;
  return f;
}

template <class T>
static void copyStrided(const StridedCopyFields &f, int threads, const T *x, T *y) {
  if (repeatsElements(f))
    return repeatElements(f, threads, x, y);
  if (isTransposition(f))
    return transpose(f, threads, x, y);
  Dimensions outer = f.shape;
  const int64_t inner = takeInner(outer), rows = product(outer);
  const int64_t stepFrom = f.shape.empty() ? 0 : f.inputStrides.back();
  const int64_t stepTo = f.shape.empty() ? 0 : f.outputStrides.back();
#pragma omp parallel for schedule(static)                                                          \
    num_threads(threads) if (rows * inner >= kParallelWalk)
  for (int64_t row = 0; row < rows; ++row) {
    const T *source = x + f.inputOffset + offsetAt(row, outer, f.inputStrides);
    T *target = y + f.outputOffset + offsetAt(row, outer, f.outputStrides);
    if (stepFrom == 1 && stepTo == 1)
      std::copy_n(source, inner, target);
    else
      for (int64_t i = 0; i < inner; ++i)
        target[i * stepTo] = source[i * stepFrom];
  }
}

template <int64_t Bytes>
static void copyBlocks(const StridedCopyFields &f, int threads, const void *x, void *y) {
  copyStrided(f, threads, static_cast<const Block<Bytes> *>(x), static_cast<Block<Bytes> *>(y));
}

template <class T> void StridedCopy::operator()(const Run &, const T *x, T *y) const {
  std::fill_n(y, fields.outputElements, static_cast<T>(fields.fill));
  const int64_t bytes =
      movesBlocks(fields) ? fields.shape.back() * static_cast<int64_t>(sizeof(T)) : 0;
  switch (bytes) {
  case 8:
    return copyBlocks<8>(inBlocks(fields), threads, x, y);
  case 12:
    return copyBlocks<12>(inBlocks(fields), threads, x, y);
  case 16:
    return copyBlocks<16>(inBlocks(fields), threads, x, y);
  default:
    copyStrided(fields, threads, x, y);
  }
}

/// Rows that begin so many bytes apart.
struct ByteRows {
  std::byte *first;
  int64_t stride;
};

template <int64_t Bytes> static void moveRows(int64_t count, ByteRows from, ByteRows to) {
  for (int64_t i = 0; i < count; ++i)
    std::memcpy(to.first + i * to.stride, from.first + i * from.stride, Bytes);
}

/// Nothing is called for rows of a few bytes.
static void moveRows(int64_t count, int64_t bytes, ByteRows from, ByteRows to) {
  switch (bytes) {
  case 4:
    return moveRows<4>(count, from, to);
  case 8:
    return moveRows<8>(count, from, to);
  case 12:
    return moveRows<12>(count, from, to);
  case 16:
    return moveRows<16>(count, from, to);
  default:
    for (int64_t i = 0; i < count; ++i)
      std::memcpy(to.first + i * to.stride, from.first + i * from.stride,
                  static_cast<size_t>(bytes));
  }
}

/// Calls `move` with the first and the number of rows that caches hold.
template <class Move> static void overRows(int64_t rows, int64_t bytes, int threads, Move move) {
  constexpr int64_t kCached = 1 << 15;
  const int64_t together = std::max<int64_t>(1, kCached / std::max<int64_t>(1, bytes));
#pragma omp parallel for schedule(static)                                                          \
    num_threads(threads) if (rows * bytes >= kParallelWalk * 4)
  for (int64_t first = 0; first < rows; first += together)
    move(first, std::min(together, rows - first));
}

void Concat::call(std::span<const void *const> pointers) const {
  const size_t parts = fields.blockBytes.size();
  if (pointers.size() != parts + 1)
    throw Error("concat: called with ", pointers.size(), " tensors, expected ", parts + 1);
  auto bytesAt = [&](size_t i) {
    return static_cast<std::byte *>(const_cast<void *>(pointers[i]));
  };
  const int64_t row = std::accumulate(fields.blockBytes.begin(), fields.blockBytes.end(), 0L);
  overRows(fields.outer, row, threads, [&](int64_t first, int64_t count) {
    std::byte *to = bytesAt(parts) + first * row;
    for (size_t i = 0; i < parts; ++i) {
      const int64_t bytes = fields.blockBytes[i];
      moveRows(count, bytes, {bytesAt(i) + first * bytes, bytes}, {to, row});
      to += bytes;
    }
  });
}

void Split::call(const void *x, std::span<void *const> parts) const {
  if (parts.size() != fields.results.size())
    throw Error("split: called with ", parts.size(), " results, expected ", fields.results.size());
  const std::vector<int64_t> &blocks = fields.blockBytes;
  const int64_t row = std::accumulate(blocks.begin(), blocks.end(), 0L);
  auto *whole = static_cast<std::byte *>(const_cast<void *>(x));
  overRows(fields.outer, row, threads, [&](int64_t first, int64_t count) {
    for (size_t i = 0; i < parts.size(); ++i) {
      const int64_t part = fields.results[i], bytes = blocks[part];
      std::byte *from =
          whole + first * row + std::accumulate(blocks.begin(), blocks.begin() + part, 0L);
      moveRows(count, bytes, {from, row},
               {static_cast<std::byte *>(parts[i]) + first * bytes, bytes});
    }
  });
}

/// Before threads start: none may throw.
template <class Index> static void requireInside(const GatherFields &f, const Index *indices) {
  auto isInside = [&](int64_t index) { return index >= -f.size && index < f.size; };
  bool areInside = true;
  for (int64_t k = 0; k < f.count; ++k)
    areInside &= isInside(indices[k]);
  if (areInside)
    return;
  for (int64_t k = 0; k < f.count; ++k) {
    const int64_t index = indices[k];
    if (isInside(index))
      continue;
    if (index < kOutsideRows / 2)
      throw DataError(0, 0, index,
                      "an index of " + std::to_string(-f.size) + " to " + std::to_string(f.size - 1),
                      "correct the file");
    const int64_t found = index - kOutsideRows;
    // Of several indices the sum says no more than that one is outside.
    throw DataError(0, 0, std::clamp(found, -kOutsideRows / 2, kOutsideRows / 2),
                    "an index of its dimension", "correct the file");
  }
}

template <class Index> static int64_t rowOf(const GatherFields &f, Index index) {
  return index < 0 ? index + f.size : index;
}

/// Single elements: nothing is called or divided for one.
template <class T, class Index>
static void gatherElements(const GatherFields &f, int threads, const T *x, const Index *indices,
                           T *y) {
  constexpr int64_t kBlock = 4096;
  const int64_t blocks = (f.count + kBlock - 1) / kBlock;
#pragma omp parallel for schedule(static) num_threads(threads)                                     \
    collapse(2) if (f.outer * f.count >= kParallelWalk)
  for (int64_t o = 0; o < f.outer; ++o)
    for (int64_t block = 0; block < blocks; ++block) {
      const int64_t first = block * kBlock, count = std::min(kBlock, f.count - first);
      const Index *from = indices + first;
      T *to = y + o * f.count + first;
      for (int64_t k = 0; k < count; ++k)
        to[k] = x[o * f.size + rowOf(f, from[k])];
    }
}

template <class T, class Index>
void Gather::operator()(const Run &, const T *x, const Index *indices, T *y) const {
  requireInside(fields, indices);
  const int64_t inner = fields.inner, slices = fields.outer * fields.count;
  if (inner == 1)
    return gatherElements(fields, threads, x, indices, y);
#pragma omp parallel for schedule(static)                                                          \
    num_threads(threads) if (slices * inner >= kParallelWalk)
  for (int64_t s = 0; s < slices; ++s)
    std::copy_n(x + (s / fields.count * fields.size + rowOf(fields, indices[s % fields.count])) *
                        inner,
                inner, y + s * inner);
}

/// `combine(row of the result, slice, elements)` for each index in order; each thread has columns of
/// its own.
template <class Index, class Combine>
static void forEachSlice(const GatherFields &fields, int threads, const Index *indices,
                         const float *slices, float *rows, Combine combine) {
  constexpr int64_t kColumns = 64;
  requireInside(fields, indices);
  const int64_t inner = fields.inner, blocks = (inner + kColumns - 1) / kColumns;
#pragma omp parallel for schedule(static) num_threads(threads)                                     \
    collapse(2) if (fields.outer * fields.count * inner >= kParallelWalk)
  for (int64_t o = 0; o < fields.outer; ++o)
    for (int64_t block = 0; block < blocks; ++block) {
      const int64_t first = block * kColumns, columns = std::min(kColumns, inner - first);
      if (inner == 1)
        for (int64_t k = 0; k < fields.count; ++k) // a loop of one, unrolled
          combine(rows + o * fields.size + rowOf(fields, indices[k]), slices + o * fields.count + k,
                  1);
      else
        for (int64_t k = 0; k < fields.count; ++k)
          combine(rows + (o * fields.size + rowOf(fields, indices[k])) * inner + first,
                  slices + (o * fields.count + k) * inner + first, columns);
    }
}

template <class Index>
void GatherGradient::operator()(const Run &, const Index *indices, const float *dy, float *dx,
                                bool add) const {
  if (!add)
    std::fill_n(dx, fields.outer * fields.size * fields.inner, 0.0f);
  forEachSlice(fields, threads, indices, dy, dx, [](float *to, const float *from, int64_t columns) {
#pragma omp simd
    for (int64_t i = 0; i < columns; ++i)
      to[i] += from[i];
  });
}

template <class Index>
void ScatterMaximum::operator()(const Run &, const Index *indices, const float *x, float *y) const {
  std::fill_n(y, fields.outer * fields.size * fields.inner,
              -std::numeric_limits<float>::infinity());
  forEachSlice(fields, threads, indices, x, y, [](float *to, const float *from, int64_t columns) {
#pragma omp simd
    for (int64_t i = 0; i < columns; ++i)
      to[i] = from[i] > to[i] || from[i] != from[i] ? from[i] : to[i];
  });
}

#define PDC_MOVEMENT_KERNELS(T)                                                                    \
  template void StridedCopy::operator()<T>(const Run &, const T *, T *) const;                     \
  template void Gather::operator()<T>(const Run &, const T *, const int64_t *, T *) const;         \
  template void Gather::operator()<T>(const Run &, const T *, const int32_t *, T *) const;
PDC_MOVEMENT_KERNELS(float)
PDC_MOVEMENT_KERNELS(int64_t)
PDC_MOVEMENT_KERNELS(int32_t)
PDC_MOVEMENT_KERNELS(uint8_t)
#undef PDC_MOVEMENT_KERNELS
template void GatherGradient::operator()(const Run &, const int64_t *, const float *, float *,
                                         bool) const;
template void GatherGradient::operator()(const Run &, const int32_t *, const float *, float *,
                                         bool) const;
template void ScatterMaximum::operator()(const Run &, const int64_t *, const float *, float *) const;
template void ScatterMaximum::operator()(const Run &, const int32_t *, const float *, float *) const;

} // namespace pdc::runtime
