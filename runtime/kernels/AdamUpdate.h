#pragma once

#include "runtime/kernels/UpdateFields.h"

namespace pdc::runtime {

class AdamUpdate {
public:
  AdamUpdate(const Device &, const AdamUpdateFields &fields) : fields(fields) {}
  void operator()(const Run &run, const float *w, const float *g, const float *m, const float *v,
                  const float *scale, const float *learningRate, const float *step, float *nextW,
                  float *nextM, float *nextV) const;

private:
  AdamUpdateFields fields;
};

} // namespace pdc::runtime
