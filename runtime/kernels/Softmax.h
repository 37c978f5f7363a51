#pragma once

#include "runtime/kernels/SoftmaxFields.h"

namespace pdc::runtime {

/// y = exp(x) / sum(exp(x)) over each row, or its logarithm.
class Softmax {
public:
  Softmax(const Device &device, const SoftmaxFields &fields)
      : fields(fields), threads(device.threads) {}
  void operator()(const Run &run, const float *x, float *y) const;

private:
  SoftmaxFields fields;
  int threads;
};

} // namespace pdc::runtime
