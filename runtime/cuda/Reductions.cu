#include "runtime/cuda/Channels.h"
#include "runtime/cuda/Columns.h"
#include "runtime/cuda/Kernels.h"
#include "runtime/cuda/Loop.h"
#include "runtime/cuda/Strides.h"
#include "runtime/cuda/Team.h"

namespace pdc::runtime::cuda {

namespace {

template <class T> struct Column {
  const T *x;
  int64_t pitch;
  template <int Width> __device__ Packed<T, Width> fetched(int64_t row, int64_t column) const {
    return fetch<Width>(x + row * pitch + column);
  }
  template <int Width, class None>
  __device__ Sums<1, Width> of(const Packed<T, Width> &row, None) const {
    return {{widened(row)}};
  }
};

template <class T> struct RectifiedColumn {
  const T *dy, *y;
  T *dx;
  int64_t columns;
  template <int Width> struct Fetched { Packed<T, Width> dy, y; };
  template <int Width> __device__ Fetched<Width> fetched(int64_t row, int64_t column) const {
    const int64_t i = row * columns + column;
    return {fetch<Width>(dy + i), fetch<Width>(y + i)};
  }
  template <int Width, class None>
  __device__ Sums<1, Width> of(const Fetched<Width> &row, None) const {
    Sums<1, Width> passed = {{widened(row.dy)}};
    const auto made = widened(row.y);
    for (int lane = 0; lane < Width; ++lane)
      passed.at[0].at[lane] = made.at[lane] > 0 ? passed.at[0].at[lane] : 0;
    return passed;
  }
  template <int Width>
  __device__ void keep(int64_t row, int64_t column, const Sums<1, Width> &passed) const {
    store(dx + row * columns + column, passed.at[0]);
  }
};

template <class T> struct StoreColumn {
  T *sum;
  bool add;
  __device__ void operator()(int64_t column, const double *sums) const {
    const float value = static_cast<float>(sums[0]);
    sum[column] = T(add ? float(sum[column]) + value : value);
  }
};

__device__ double wide(double x) { return x; }
template <class X> __device__ double wide(X x) { return float(x); }

/// The sum of elements begin, begin + apart, ... before `end`, in their order; some are read before
/// one is added.
template <class X>
__device__ double sumOf(const StridedWalk &walk, const X *from, int64_t begin, int64_t end,
                        int64_t apart) {
  constexpr int kRead = 4;
  double sum = 0;
  int64_t i = begin;
  for (; i + (kRead - 1) * apart < end; i += kRead * apart) {
    X read[kRead];
    PDC_UNROLL
    for (int j = 0; j < kRead; ++j)
      read[j] = from[walk.from(i + j * apart)];
    PDC_UNROLL
    for (int j = 0; j < kRead; ++j)
      sum += wide(read[j]);
  }
  for (; i < end; i += apart)
    sum += wide(from[walk.from(i)]);
  return sum;
}

/// A team per result, in f64.
template <int Threads, class X, class Y>
__global__ void reduceKernel(StridedWalk kept, StridedWalk summed, double scale, const X *x, Y *y,
                             bool add) {
  using Row = Team<Threads>;
  const int64_t result = Row::index();
  if (result >= kept.elements)
    return;
  const X *from = x + kept.from(result);
  const double sum = Row::sum(sumOf(summed, from, Row::thread(), summed.elements, Threads));
  if (Row::thread() == 0) {
    const float value = static_cast<float>(sum * scale);
    y[result] = Y(add ? float(y[result]) + value : value);
  }
}

/// A lane per result, in f64: results whose elements lie side by side are read together. The warps
/// of a block share what is summed.
template <class X, class Y>
__global__ void reduceBesideKernel(StridedWalk kept, StridedWalk summed, double scale, const X *x,
                                   Y *y, bool add) {
  constexpr int kWarps = kBlockThreads / kWarpThreads;
  __shared__ double sums[kWarps][kWarpThreads];
  const int lane = static_cast<int>(threadIdx.x) % kWarpThreads,
            warp = static_cast<int>(threadIdx.x) / kWarpThreads;
  const int64_t result = blockIdx.x * int64_t(kWarpThreads) + lane;
  double sum = 0;
  if (result < kept.elements) {
    const X *from = x + kept.from(result);
    sum = sumOf(summed, from, warp, summed.elements, kWarps);
  }
  sums[warp][lane] = sum;
  __syncthreads();
  if (warp != 0 || result >= kept.elements)
    return;
  for (int other = 1; other < kWarps; ++other)
    sum += sums[other][lane];
  const float value = static_cast<float>(sum * scale);
  y[result] = Y(add ? float(y[result]) + value : value);
}

/// Whether neighbouring results have neighbouring elements, and one result has not.
bool liesBeside(const StridedWalk &kept, const StridedWalk &summed) {
  return kept.rank > 0 && kept.inputs[kept.rank - 1] == 1 &&
         kept.sizes[kept.rank - 1] >= kWarpThreads / 2 && summed.rank > 0 &&
         summed.inputs[summed.rank - 1] != 1;
}

/// Block `parts * result + part` sums that part of the result's elements, in f64.
template <class X>
__global__ void reducePartsKernel(StridedWalk kept, StridedWalk summed, int64_t parts, const X *x,
                                  double *sums) {
  const int64_t part = blockIdx.x % parts, size = ceilDivide(summed.elements, parts);
  const int64_t end = size * (part + 1) < summed.elements ? size * (part + 1) : summed.elements;
  const X *from = x + kept.from(blockIdx.x / parts);
  const double sum =
      Team<kBlockThreads>::sum(sumOf(summed, from, size * part + threadIdx.x, end, kBlockThreads));
  if (threadIdx.x == 0)
    sums[blockIdx.x] = sum;
}

StridedWalk walk(int64_t elements, int64_t stride) { return {{&elements, 1}, {&stride, 1}}; }

struct Sum {
  __device__ float operator()(float a, float b) const { return a + b; }
};
struct Same {
  __device__ float operator()(float a) const { return a; }
};

} // namespace

template <class X, class Y>
void ColumnSum::operator()(const Run &run, const X *x, Y *sum, bool add) const {
  const Channels shape(fields.input);
  sumColumns<1>(run, shape.rows, shape.columns,
                Column<X>{x, fields.pitch ? fields.pitch : shape.columns},
                StoreColumn<Y>{sum, add});
}

template <class T>
void ReluGradientSum::operator()(const Run &run, const T *dy, const T *y, T *dx, float *sum,
                                 bool add) const {
  const Channels shape(fields.input);
  sumColumns<1>(run, shape.rows, shape.columns, RectifiedColumn<T>{dy, y, dx, shape.columns},
                StoreColumn<float>{sum, add});
}

template <class X, class Y>
void ReduceSum::operator()(const Run &run, const X *x, Y *y, bool add) const {
  const StridedWalk kept(fields.keptShape, fields.keptStrides);
  const StridedWalk summed(fields.sumShape, fields.sumStrides);
  if (const int64_t parts = reductionParts(kept.elements, summed.elements); parts > 1) {
    auto *sums = reinterpret_cast<double *>(run.scratchBase);
    launch(run, kept.elements * parts, kBlockThreads, reducePartsKernel<X>, kept, summed, parts, x,
           sums);
    launch(run, ceilDivide(kept.elements, kBlockThreads / kWarpThreads), kBlockThreads,
           reduceKernel<kWarpThreads, double, Y>, walk(kept.elements, parts), walk(parts, 1),
           fields.scale, sums, y, add);
    return;
  }
  if (liesBeside(kept, summed))
    return launch(run, ceilDivide(kept.elements, kWarpThreads), kBlockThreads,
                  reduceBesideKernel<X, Y>, kept, summed, fields.scale, x, y, add);
  const TeamShape teams = TeamShape::of(kept.elements, summed.elements);
  launch(run, teams.blocks, kBlockThreads,
         teams.threads == kWarpThreads ? reduceKernel<kWarpThreads, X, Y>
                                       : reduceKernel<kBlockThreads, X, Y>,
         kept, summed, fields.scale, x, y, add);
}

#define PDC_RECTIFIED(T)                                                                           \
  template void ReluGradientSum::operator()(const Run &, const T *, const T *, T *, float *, bool) \
      const;
PDC_RECTIFIED(float)
PDC_RECTIFIED(BFloat16)
PDC_RECTIFIED(Float16)
#undef PDC_RECTIFIED

#define PDC_SUMS(X, Y)                                                                             \
  template void ColumnSum::operator()(const Run &, const X *, Y *, bool) const;                    \
  template void ReduceSum::operator()(const Run &, const X *, Y *, bool) const;
PDC_SUMS(float, float)
PDC_SUMS(BFloat16, float)
PDC_SUMS(Float16, float)
#undef PDC_SUMS

void accumulate(const Run &run, int64_t count, float *sum, const float *value, bool add) {
  if (add)
    loop(run, count, Sum(), into(sum), sum, value);
  else
    loop(run, count, Same(), into(sum), value);
}

} // namespace pdc::runtime::cuda
