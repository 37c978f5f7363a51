#include "runtime/cuda/Kernels.h"
#include "runtime/cuda/PickedRow.h"
#include "runtime/cuda/Strides.h"
#include "runtime/cuda/Transposition.h"

#include "runtime/Error.h"
#include "runtime/kernels/OutsideRows.h"

#include <array>
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
  overSpread(
      walk.elements, [&](int64_t i) { return x[walk.from(i)]; },
      [&](int64_t i, T value) { y[walk.to(i)] = value; });
}

/// By kernels of its own where it turns matrices that fill their blocks, otherwise element by
/// element.
template <class T> void copy(const Run &run, const StridedWalk &walk, const T *x, T *y) {
  if (walk.transposes()) {
    const int64_t rows = walk.sizes[walk.rank - 1], columns = walk.sizes[walk.rank - 2];
    if (fillsBlocks(rows, columns, sizeof(T))) {
      using Bits = BitsOf<sizeof(T)>;
      transpose(run, walk.elements / (rows * columns), rows, columns,
                reinterpret_cast<const Bits *>(x), reinterpret_cast<Bits *>(y));
      return;
    }
  }
  launchSpread(run, walk.elements, copyKernel<T>, walk, x, y);
}

/// What stands for a row that an index outside the table picks: as an index of other tables, it is
/// outside of them.
template <class T> PDC_EITHER T nothing() {
  if constexpr (std::is_same_v<T, int64_t>)
    return kOutsideRows;
  else if constexpr (std::is_same_v<T, int32_t>)
    return std::numeric_limits<int32_t>::max();
  else if constexpr (std::is_integral_v<T>)
    return T(0);
  else
    return static_cast<T>(std::numeric_limits<float>::quiet_NaN());
}

template <class T, class Index>
__global__ void gatherKernel(GatherFields f, const T *x, const Index *indices, T *y) {
  const int64_t i = globalThread();
  if (i >= f.outer * f.count * f.inner)
    return;
  const int64_t slice = i / f.inner, row = pickedRow(f, indices[slice % f.count]);
  y[i] = row < 0 ? nothing<T>() : x[(slice / f.count * f.size + row) * f.inner + i % f.inner];
}

/// By the bits of the numbers, which as integers have the order of positive ones, and the opposite
/// of that of negative ones. NaN without a sign is the largest of all; a zero has none here.
__device__ void raiseTo(float *y, float value) {
  const float unsignedZero = value + 0.0f;
  const float given = value != value ? std::numeric_limits<float>::quiet_NaN() : unsignedZero;
  int bits;
  memcpy(&bits, &given, sizeof bits);
  if (bits >= 0)
    atomicMax(reinterpret_cast<int *>(y), bits);
  else
    atomicMin(reinterpret_cast<unsigned *>(y), static_cast<unsigned>(bits));
}

/// An index outside makes a number NaN.
template <class Index>
__global__ void scatterMaximumKernel(GatherFields f, const Index *indices, const float *x,
                                     float *y) {
  const int64_t i = globalThread();
  if (i >= f.outer * f.count * f.inner)
    return;
  const int64_t slice = i / f.inner, row = pickedRow(f, indices[slice % f.count]);
  raiseTo(y + (slice / f.count * f.size + (row < 0 ? 0 : row)) * f.inner + i % f.inner,
          row < 0 ? nothing<float>() : x[i]);
}

} // namespace

template <class T> void StridedCopy::operator()(const Run &run, const T *x, T *y) const {
  if (fields.outputElements > 0)
    launchOver(run, fields.outputElements, fillKernel<T>, fields.outputElements,
               static_cast<T>(fields.fill), y);
  copy(run, StridedWalk(fields.shape, fields.inputStrides, fields.outputStrides),
       x + fields.inputOffset, y + fields.outputOffset);
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
  const int64_t shape[] = {samples, columns, rows};
  copy(run,
       StridedWalk(shape, std::array{rows * columns, int64_t(1), columns},
                   std::array{rows * columns, rows, int64_t(1)}),
       x, y);
}

template <class T, class Index>
void Gather::operator()(const Run &run, const T *x, const Index *indices, T *y) const {
  launchOver(run, fields.outer * fields.count * fields.inner, gatherKernel<T, Index>, fields, x,
             indices, y);
}

template <class Index>
void ScatterMaximum::operator()(const Run &run, const Index *indices, const float *x,
                                float *y) const {
  const int64_t results = fields.outer * fields.size * fields.inner;
  launchOver(run, results, fillKernel<float>, results, -std::numeric_limits<float>::infinity(), y);
  launchOver(run, fields.outer * fields.count * fields.inner, scatterMaximumKernel<Index>, fields,
             indices, x, y);
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
template void ScatterMaximum::operator()(const Run &, const int64_t *, const float *,
                                         float *) const;
template void ScatterMaximum::operator()(const Run &, const int32_t *, const float *,
                                         float *) const;
template void Reorder::operator()(const Run &, const float *, float *) const;
template void Reorder::operator()(const Run &, const BFloat16 *, BFloat16 *) const;
template void Reorder::operator()(const Run &, const Float16 *, Float16 *) const;

} // namespace pdc::runtime::cuda
