#pragma once

#include "runtime/kernels/UpdateFields.h"

namespace pdc::runtime {

class SgdUpdate {
public:
  SgdUpdate(const Device &, const SgdUpdateFields &fields) : fields(fields) {}
  void operator()(const Run &run, const float *w, const float *g, const float *scale,
                  const float *learningRate, float *nextW) const;

private:
  SgdUpdateFields fields;
};

} // namespace pdc::runtime
