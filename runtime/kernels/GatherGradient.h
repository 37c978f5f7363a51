#pragma once

#include "runtime/kernels/GatherFields.h"

namespace pdc::runtime {

/// dx[o, indices[k], i] += dy[o, k, i], k ascending; dx starts from zero unless `add`.
class GatherGradient {
public:
  GatherGradient(const Device &device, const GatherFields &fields)
      : fields(fields), threads(device.threads) {}
  /// Index: int64_t, int32_t. No bit depends on the number of threads.
  template <class Index>
  void operator()(const Run &run, const Index *indices, const float *dy, float *dx, bool add) const;

private:
  GatherFields fields;
  int threads;
};

} // namespace pdc::runtime
