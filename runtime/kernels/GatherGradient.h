#pragma once

#include "runtime/kernels/GatherFields.h"

namespace pdc::runtime {

/// dx[o, indices[k], i] += dy[o, k, i], k ascending; dx starts from zero unless `add`.
class GatherGradient {
public:
  GatherGradient(const Device &, const GatherFields &fields) : fields(fields) {}
  void operator()(const Run &run, const int64_t *indices, const float *dy, float *dx,
                  bool add) const;
  void operator()(const Run &run, const int32_t *indices, const float *dy, float *dx,
                  bool add) const;

private:
  GatherFields fields;
};

} // namespace pdc::runtime
