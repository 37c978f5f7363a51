#pragma once

#include "runtime/Program.h"

namespace pdc::runtime {

struct ArgMaxFields {
  int64_t inner = 1; ///< elements behind the axis
  int64_t last = 0;  ///< 1: of equal elements the last one
  int64_t outer = 1; ///< elements before it
  int64_t size = 0;  ///< along it
};

/// y: where along the axis the largest element is; NaN is the largest.
class ArgMax {
public:
  ArgMax(const Device &device, const ArgMaxFields &fields)
      : fields(fields), threads(device.threads) {}
  void operator()(const Run &run, const float *x, int64_t *y) const;

private:
  ArgMaxFields fields;
  int threads;
};

} // namespace pdc::runtime
