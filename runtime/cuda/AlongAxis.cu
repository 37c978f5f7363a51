#include "runtime/cuda/Kernels.h"
#include "runtime/cuda/Strides.h"
#include "runtime/kernels/TopOfLine.h"

#include <limits>
#include <string_view>

/// Walks along an axis, a thread per line: rare beside the work of layers, and in a fixed order.
namespace pdc::runtime::cuda {

namespace {

template <class T> PDC_EITHER bool isNaN(T value) { return value != value; }

/// Where element 0 of a line lies.
PDC_EITHER int64_t firstOf(int64_t line, int64_t size, int64_t inner) {
  return line / inner * size * inner + line % inner;
}

__global__ void reduceLines(StridedWalk kept, StridedWalk reduced, bool isMaximum, const float *x,
                            float *y) {
  const int64_t line = globalThread();
  if (line >= kept.elements)
    return;
  const float *from = x + kept.from(line);
  double result = isMaximum ? -std::numeric_limits<double>::infinity() : 1;
  for (int64_t k = 0; k < reduced.elements; ++k) {
    const double element = from[reduced.from(k)];
    if (!isMaximum)
      result *= element;
    else if (!(result >= element) && !isNaN(result))
      result = element;
  }
  y[line] = static_cast<float>(result);
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

} // namespace

void Reduce::operator()(const Run &run, const float *x, float *y) const {
  const StridedWalk kept(fields.keptShape, fields.keptStrides);
  const StridedWalk reduced(fields.reducedShape, fields.reducedStrides);
  const bool isMaximum = std::string_view(fields.operation) == "maximum";
  launchOver(run, kept.elements, reduceLines, kept, reduced, isMaximum, x, y);
}

void ArgMax::operator()(const Run &run, const float *x, int64_t *y) const {
  launchOver(run, fields.outer * fields.inner, argMaxLines, fields, x, y);
}

void CumulativeSum::operator()(const Run &run, const float *x, float *y) const {
  launchOver(run, fields.outer * fields.inner, cumulativeSumLines<double, float>, fields, x, y);
}

void CumulativeSum::operator()(const Run &run, const int64_t *x, int64_t *y) const {
  launchOver(run, fields.outer * fields.inner, cumulativeSumLines<int64_t, int64_t>, fields, x, y);
}

void TopK::operator()(const Run &run, const float *x, int64_t *y) const {
  launchOver(run, fields.outer * fields.inner, topLines<float>, fields, x, y);
}

void TopK::operator()(const Run &run, const int64_t *x, int64_t *y) const {
  launchOver(run, fields.outer * fields.inner, topLines<int64_t>, fields, x, y);
}

} // namespace pdc::runtime::cuda
