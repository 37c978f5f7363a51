#pragma once

#include "runtime/kernels/GatherFields.h"

namespace pdc::runtime {

/// y[o, k, i] = x[o, indices[k], i]; negative indices count from the end.
class Gather {
public:
  Gather(const Device &device, const GatherFields &fields)
      : fields(fields), threads(device.threads) {}
  /// T: float, int64_t, int32_t, uint8_t; Index: int64_t, int32_t.
  template <class T, class Index>
  void operator()(const Run &run, const T *x, const Index *indices, T *y) const;

private:
  GatherFields fields;
  int threads;
};

} // namespace pdc::runtime
