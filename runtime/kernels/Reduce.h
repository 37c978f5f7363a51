#pragma once

#include "runtime/Program.h"

#include <vector>

namespace pdc::runtime {

struct ReduceFields {
  std::vector<int64_t> keptShape; ///< dimensions that stay, and their strides in the operand
  std::vector<int64_t> keptStrides;
  const char *operation = ""; ///< "maximum" (NaN if one is) or "product" (in f64)
  std::vector<int64_t> reducedShape;
  std::vector<int64_t> reducedStrides;
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
