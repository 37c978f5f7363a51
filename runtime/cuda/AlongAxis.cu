#include "runtime/cuda/Kernels.h"
#include "runtime/cuda/Launch.h"
#include "runtime/kernels/TopOfLine.h"

#include <algorithm>

/// Walks along an axis, a thread per line: rare beside the work of layers, and in a fixed order.
namespace pdc::runtime::cuda {

namespace {

template <class T> PDC_EITHER bool isNaN(T value) { return value != value; }

/// Where element 0 of a line lies.
PDC_EITHER int64_t firstOf(int64_t line, int64_t size, int64_t inner) {
  return line / inner * size * inner + line % inner;
}

__global__ void argMaxLines(ArgMaxFields f, const float *x, int64_t *y) {
  const int64_t line = globalThread();
  if (line >= f.outer * f.inner)
    return;
  const float *from = x + firstOf(line, f.size, f.inner);
  int64_t best = 0;
  for (int64_t k = 1; k < f.size; ++k) {
    const float value = from[k * f.inner], most = from[best * f.inner];
    const bool isMore = value > most || (isNaN(value) && !isNaN(most));
    const bool isEqual = value == most || (isNaN(value) && isNaN(most));
    if (isMore || (f.last && isEqual))
      best = k;
  }
  y[line] = best;
}

template <class Sum, class Element>
__global__ void cumulativeSumLines(CumulativeSumFields f, const Element *x, Element *y) {
  const int64_t line = globalThread();
  if (line >= f.outer * f.inner)
    return;
  const int64_t first = firstOf(line, f.size, f.inner);
  Sum sum = 0;
  for (int64_t k = 0; k < f.size; ++k) {
    const int64_t at = first + (f.reverse ? f.size - 1 - k : k) * f.inner;
    const Sum with = sum + x[at];
    y[at] = static_cast<Element>(f.exclusive ? sum : with);
    sum = with;
  }
}

template <class T> __global__ void topLines(TopKFields f, const T *x, int64_t *y) {
  const int64_t line = globalThread();
  if (line < f.outer * f.inner)
    topOfLine(f, line, x, y);
}

/// The block's elements of a line, one per thread, each of which counts those before it: that is
/// its place. The line is read in tiles.
template <class T>
__global__ void placeElements(TopKFields f, unsigned blocks, const T *x, int64_t *y) {
  __shared__ T tile[kBlockThreads];
  const int64_t line = blockIdx.x / blocks;
  const int64_t own = (blockIdx.x % blocks) * int64_t(kBlockThreads) + threadIdx.x;
  const T *from = x + firstOf(line, f.size, f.inner);
  const T value = from[(own < f.size ? own : 0) * f.inner];
  int64_t place = 0;
  for (int64_t begin = 0; begin < f.size; begin += kBlockThreads) {
    __syncthreads(); // the tile before has been read
    if (begin + threadIdx.x < f.size)
      tile[threadIdx.x] = from[(begin + threadIdx.x) * f.inner];
    __syncthreads();
    const int64_t left = f.size - begin;
    for (int i = 0; i < (left < kBlockThreads ? int(left) : kBlockThreads); ++i)
      place += comesBefore(f, tile[i], begin + i, value, own);
  }
  if (own < f.size && place < f.count)
    y[firstOf(line, f.count, f.inner) + place * f.inner] = own;
}

/// Many lines fill a GPU with a thread each, whose steps are as many as elements, and more where
/// many are wanted; few lines do not, and comparing all elements with all is done by many threads.
template <class T> void top(const Run &run, const TopKFields &f, const T *x, int64_t *y) {
  const int64_t lines = f.outer * f.inner;
  if (lines * f.size >= (int64_t(1) << 16) * std::min<int64_t>(f.count, 64))
    return launchOver(run, lines, topLines<T>, f, x, y);
  const int64_t blocks = ceilDivide(f.size, kBlockThreads);
  launch(run, lines * blocks, kBlockThreads, placeElements<T>, f, unsigned(blocks), x, y);
}

} // namespace

void ArgMax::operator()(const Run &run, const float *x, int64_t *y) const {
  launchOver(run, fields.outer * fields.inner, argMaxLines, fields, x, y);
}

void CumulativeSum::operator()(const Run &run, const float *x, float *y) const {
  launchOver(run, fields.outer * fields.inner, cumulativeSumLines<double, float>, fields, x, y);
}

void CumulativeSum::operator()(const Run &run, const int64_t *x, int64_t *y) const {
  launchOver(run, fields.outer * fields.inner, cumulativeSumLines<int64_t, int64_t>, fields, x, y);
}

void TopK::operator()(const Run &run, const float *x, int64_t *y) const { top(run, fields, x, y); }

void TopK::operator()(const Run &run, const int64_t *x, int64_t *y) const {
  top(run, fields, x, y);
}

} // namespace pdc::runtime::cuda
