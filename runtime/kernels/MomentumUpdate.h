#pragma once

#include "runtime/kernels/UpdateFields.h"

namespace pdc::runtime {

/// The first step (number 1) takes the gradient itself as momentum, undamped.
class MomentumUpdate {
public:
  MomentumUpdate(const Device &, const MomentumUpdateFields &fields) : fields(fields) {}
  void operator()(const Run &run, const float *w, const float *g, const float *v,
                  const float *scale, const float *learningRate, const float *step, float *nextW,
                  float *nextV) const;

private:
  MomentumUpdateFields fields;
};

} // namespace pdc::runtime
