#pragma once

#include "runtime/Program.h"
#include "runtime/kernels/Dimensions.h"

namespace pdc::runtime {

struct ReduceFields {
  Dimensions keptShape; ///< dimensions that stay, and their strides in the operand
  Dimensions keptStrides;
  const char *operation = ""; ///< "maximum" (NaN if one is) or "product" (in f64)
  Dimensions reducedShape;
  Dimensions reducedStrides;
};

/// y: the maxima or products of x's elements, each in row-major order.
class Reduce {
public:
  Reduce(const Device &device, const ReduceFields &fields);
  void operator()(const Run &run, const float *x, float *y) const;

private:
  ReduceFields fields;
  bool isMaximum;
  int threads;
};

} // namespace pdc::runtime
