#pragma once

#include "runtime/Program.h"

namespace pdc::runtime {

struct TopKFields {
  int64_t count = 0;   ///< how many per line
  int64_t inner = 1;   ///< elements behind the axis
  int64_t largest = 1; ///< 0: the smallest ones
  int64_t outer = 1;   ///< elements before it
  int64_t size = 0;    ///< along it
};

/// y: where along the axis the largest elements are, in descending order; of equal ones the first
/// comes first, and NaN is the largest. It works in the result's memory.
class TopK {
public:
  TopK(const Device &device, const TopKFields &fields) : fields(fields), threads(device.threads) {}
  void operator()(const Run &run, const float *x, int64_t *y) const;
  void operator()(const Run &run, const int64_t *x, int64_t *y) const;

private:
  TopKFields fields;
  int threads;
};

} // namespace pdc::runtime
