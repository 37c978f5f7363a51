#include "runtime/cuda/Channels.h"
#include "runtime/cuda/Columns.h"
#include "runtime/cuda/Kernels.h"
#include "runtime/cuda/Loop.h"
#include "runtime/cuda/Strides.h"
#include "runtime/cuda/Team.h"

#include <limits>
#include <string_view>

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

/// How elements become one: in f64, and in an order that the sizes fix.
struct Added {
  static constexpr double kNone = 0;
  __device__ double operator()(double a, double b) const { return a + b; }
};
struct Multiplied {
  static constexpr double kNone = 1;
  __device__ double operator()(double a, double b) const { return a * b; }
};
/// NaN if one is.
struct Largest {
  static constexpr double kNone = -std::numeric_limits<double>::infinity();
  __device__ double operator()(double a, double b) const { return a >= b || a != a ? a : b; }
};

/// Elements begin, begin + apart, ... before `end`, in their order; some are read before one is
/// joined.
template <class Join, class X>
__device__ double joined(const StridedWalk &walk, const X *from, int64_t begin, int64_t end,
                         int64_t apart) {
  constexpr int kRead = 4;
  double result = Join::kNone;
  int64_t i = begin;
  for (; i + (kRead - 1) * apart < end; i += kRead * apart) {
    X read[kRead];
    PDC_UNROLL
    for (int j = 0; j < kRead; ++j)
      read[j] = from[walk.from(i + j * apart)];
    PDC_UNROLL
    for (int j = 0; j < kRead; ++j)
      result = Join()(result, wide(read[j]));
  }
  for (; i < end; i += apart)
    result = Join()(result, wide(from[walk.from(i)]));
  return result;
}

/// A team per result.
template <class Join, int Threads, class X, class Y>
__global__ void reduceKernel(StridedWalk kept, StridedWalk reduced, double scale, const X *x, Y *y,
                             bool add) {
  using Row = Team<Threads>;
  const int64_t result = Row::index();
  if (result >= kept.elements)
    return;
  const X *from = x + kept.from(result);
  const double all =
      Row::reduce(joined<Join>(reduced, from, Row::thread(), reduced.elements, Threads), Join());
  if (Row::thread() == 0) {
    const float value = static_cast<float>(all * scale);
    y[result] = Y(add ? float(y[result]) + value : value);
  }
}

/// A lane per result: results whose elements lie side by side are read together. The warps of a
/// block share what is reduced.
template <class Join, class X, class Y>
__global__ void reduceBesideKernel(StridedWalk kept, StridedWalk reduced, double scale, const X *x,
                                   Y *y, bool add) {
  constexpr int kWarps = kBlockThreads / kWarpThreads;
  __shared__ double parts[kWarps][kWarpThreads];
  const int lane = static_cast<int>(threadIdx.x) % kWarpThreads,
            warp = static_cast<int>(threadIdx.x) / kWarpThreads;
  const int64_t result = blockIdx.x * int64_t(kWarpThreads) + lane;
  double all = Join::kNone;
  if (result < kept.elements) {
    const X *from = x + kept.from(result);
    all = joined<Join>(reduced, from, warp, reduced.elements, kWarps);
  }
  parts[warp][lane] = all;
  __syncthreads();
  if (warp != 0 || result >= kept.elements)
    return;
  for (int other = 1; other < kWarps; ++other)
    all = Join()(all, parts[other][lane]);
  const float value = static_cast<float>(all * scale);
  y[result] = Y(add ? float(y[result]) + value : value);
}

/// Whether neighbouring results have neighbouring elements, and one result has not.
bool liesBeside(const StridedWalk &kept, const StridedWalk &reduced) {
  return kept.rank > 0 && kept.inputs[kept.rank - 1] == 1 &&
         kept.sizes[kept.rank - 1] >= kWarpThreads / 2 && reduced.rank > 0 &&
         reduced.inputs[reduced.rank - 1] != 1;
}

/// Block `parts * result + part` reduces that part of the result's elements.
template <class Join, class X>
__global__ void reducePartsKernel(StridedWalk kept, StridedWalk reduced, int64_t parts, const X *x,
                                  double *results) {
  const int64_t part = blockIdx.x % parts, size = ceilDivide(reduced.elements, parts);
  const int64_t end = size * (part + 1) < reduced.elements ? size * (part + 1) : reduced.elements;
  const X *from = x + kept.from(blockIdx.x / parts);
  const double all = Team<kBlockThreads>::reduce(
      joined<Join>(reduced, from, size * part + threadIdx.x, end, kBlockThreads), Join());
  if (threadIdx.x == 0)
    results[blockIdx.x] = all;
}

StridedWalk walk(int64_t elements, int64_t stride) { return {{&elements, 1}, {&stride, 1}}; }

/// y: what the elements of each result become, times `scale`.
template <class Join, class X, class Y>
void reduce(const Run &run, const StridedWalk &kept, const StridedWalk &reduced, double scale,
            const X *x, Y *y, bool add) {
  if (const int64_t parts = reductionParts(kept.elements, reduced.elements); parts > 1) {
    auto *results = reinterpret_cast<double *>(run.scratchBase);
    launch(run, kept.elements * parts, kBlockThreads, reducePartsKernel<Join, X>, kept, reduced,
           parts, x, results);
    launch(run, ceilDivide(kept.elements, kBlockThreads / kWarpThreads), kBlockThreads,
           reduceKernel<Join, kWarpThreads, double, Y>, walk(kept.elements, parts), walk(parts, 1),
           scale, results, y, add);
    return;
  }
  if (liesBeside(kept, reduced))
    return launch(run, ceilDivide(kept.elements, kWarpThreads), kBlockThreads,
                  reduceBesideKernel<Join, X, Y>, kept, reduced, scale, x, y, add);
  const TeamShape teams = TeamShape::of(kept.elements, reduced.elements);
  launch(run, teams.blocks, kBlockThreads,
         teams.threads == kWarpThreads ? reduceKernel<Join, kWarpThreads, X, Y>
                                       : reduceKernel<Join, kBlockThreads, X, Y>,
         kept, reduced, scale, x, y, add);
}

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
  reduce<Added>(run, {fields.keptShape, fields.keptStrides}, {fields.sumShape, fields.sumStrides},
                fields.scale, x, y, add);
}

void Reduce::operator()(const Run &run, const float *x, float *y) const {
  const StridedWalk kept(fields.keptShape, fields.keptStrides);
  const StridedWalk reduced(fields.reducedShape, fields.reducedStrides);
  if (std::string_view(fields.operation) == "maximum")
    reduce<Largest>(run, kept, reduced, 1, x, y, false);
  else
    reduce<Multiplied>(run, kept, reduced, 1, x, y, false);
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
