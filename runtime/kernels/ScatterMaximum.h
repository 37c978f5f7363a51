#pragma once

#include "runtime/kernels/GatherFields.h"

namespace pdc::runtime {

/// y[o, r, i]: the largest of all x[o, k, i] with indices[k] = r, NaN if one is; -infinity where no
/// index is r.
class ScatterMaximum {
public:
  ScatterMaximum(const Device &device, const GatherFields &fields)
      : fields(fields), threads(device.threads) {}
  /// Index: int64_t, int32_t.
  template <class Index>
  void operator()(const Run &run, const Index *indices, const float *x, float *y) const;

private:
  GatherFields fields;
  int threads;
};

} // namespace pdc::runtime
