#pragma once

#include "runtime/kernels/GatherFields.h"

namespace pdc::runtime {

/// y[o, k, i] = x[o, indices[k], i]; negative indices count from the end.
class Gather {
public:
  Gather(const Device &, const GatherFields &fields) : fields(fields) {}
  void operator()(const Run &run, const float *x, const int64_t *indices, float *y) const;
  void operator()(const Run &run, const float *x, const int32_t *indices, float *y) const;

private:
  GatherFields fields;
};

} // namespace pdc::runtime
