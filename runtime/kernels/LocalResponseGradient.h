#pragma once

#include "runtime/kernels/LocalResponseFields.h"

namespace pdc::runtime {

/// dx from dy, x and the forward result y. Uses two tensors of workspace.
class LocalResponseGradient {
public:
  LocalResponseGradient(const Device &device, const LocalResponseFields &fields);
  void operator()(const Run &run, const float *dy, const float *x, const float *y, float *dx);

private:
  LocalResponseFields fields;
  int64_t batch, channels, pixels;
  int threads;
};

} // namespace pdc::runtime
