#pragma once

#include "runtime/Program.h"
#include "runtime/kernels/Dimensions.h"

namespace pdc::runtime {

struct ReduceSumFields {
  Dimensions keptShape; ///< dimensions that stay, and their strides in the operand
  Dimensions keptStrides;
  double scale = 1;
  Dimensions sumShape; ///< dimensions that are summed
  Dimensions sumStrides;
};

/// y [+]= scale times sums of x, each in row-major order in f64.
class ReduceSum {
public:
  ReduceSum(const Device &device, const ReduceSumFields &fields);
  void operator()(const Run &run, const float *x, float *y, bool add);

private:
  ReduceSumFields fields;
  int threads;
};

} // namespace pdc::runtime
