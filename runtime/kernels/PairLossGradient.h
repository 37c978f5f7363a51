#pragma once

#include "runtime/kernels/PairLossFields.h"

namespace pdc::runtime {

/// The gradient of the predictions; dy is one number.
class PairLossGradient {
public:
  PairLossGradient(const Device &device, const PairLossFields &fields);
  void operator()(const Run &run, const float *prediction, const float *target, const float *dy,
                  float *dx) const {
    call(run, fields.count, prediction, target, *dy, dx);
  }

private:
  PairLossFields fields;
  void (*call)(const Run &, int64_t, const float *, const float *, float, float *);
};

} // namespace pdc::runtime
