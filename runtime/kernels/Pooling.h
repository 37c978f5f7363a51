#pragma once

#include "runtime/Program.h"
#include "runtime/kernels/LibraryCall.h"
#include "runtime/kernels/PoolingFields.h"

namespace pdc::runtime {

class Pooling {
public:
  Pooling(const Device &device, const PoolingFields &fields);
  void operator()(const Run &run, const float *x, float *y);
  /// Max pooling for training. `positions` is only passed on.
  void operator()(const Run &run, const float *x, float *y, void *positions);

private:
  LibraryCall call;
};

} // namespace pdc::runtime
