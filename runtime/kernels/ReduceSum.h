#pragma once

#include "runtime/Program.h"

#include <vector>

namespace pdc::runtime {

struct ReduceSumFields {
  std::vector<int64_t> keptShape; ///< dimensions that stay, and their strides in the operand
  std::vector<int64_t> keptStrides;
  double scale = 1;
  std::vector<int64_t> sumShape; ///< dimensions that are summed
  std::vector<int64_t> sumStrides;
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
