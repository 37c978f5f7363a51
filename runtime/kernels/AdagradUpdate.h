#pragma once

#include "runtime/kernels/UpdateFields.h"

namespace pdc::runtime {

class AdagradUpdate {
public:
  AdagradUpdate(const Device &, const AdagradUpdateFields &fields) : fields(fields) {}
  void operator()(const Run &run, const float *w, const float *g, const float *h,
                  const float *scale, const float *learningRate, const float *step, float *nextW,
                  float *nextH) const;

private:
  AdagradUpdateFields fields;
};

} // namespace pdc::runtime
