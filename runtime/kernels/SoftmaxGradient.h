#pragma once

#include "runtime/kernels/SoftmaxFields.h"

namespace pdc::runtime {

/// dx from dy and the forward result y.
class SoftmaxGradient {
public:
  SoftmaxGradient(const Device &device, const SoftmaxFields &fields)
      : fields(fields), threads(device.threads) {}
  void operator()(const Run &run, const float *dy, const float *y, float *dx) const;

private:
  SoftmaxFields fields;
  int threads;
};

} // namespace pdc::runtime
