#pragma once

#include "runtime/kernels/PairLossFields.h"

namespace pdc::runtime {

/// The sum of all elements' losses, in f64.
class PairLoss {
public:
  PairLoss(const Device &device, const PairLossFields &fields);
  void operator()(const Run &run, const float *prediction, const float *target, float *loss) const {
    call(run, fields.count, prediction, target, loss);
  }

private:
  PairLossFields fields;
  void (*call)(const Run &, int64_t, const float *, const float *, float *);
};

} // namespace pdc::runtime
