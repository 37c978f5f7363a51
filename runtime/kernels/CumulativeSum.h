#pragma once

#include "runtime/Program.h"

namespace pdc::runtime {

struct CumulativeSumFields {
  int64_t exclusive = 0; ///< 1: without the element itself
  int64_t inner = 1;     ///< elements behind the axis
  int64_t outer = 1;     ///< elements before it
  int64_t reverse = 0;   ///< 1: from the end
  int64_t size = 0;      ///< along it
};

/// y: sums of x's elements up to each one along the axis, in f64; integers as integers.
class CumulativeSum {
public:
  CumulativeSum(const Device &device, const CumulativeSumFields &fields)
      : fields(fields), threads(device.threads) {}
  void operator()(const Run &run, const float *x, float *y) const;
  void operator()(const Run &run, const int64_t *x, int64_t *y) const;

private:
  CumulativeSumFields fields;
  int threads;
};

} // namespace pdc::runtime
