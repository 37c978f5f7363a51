#pragma once

#include "runtime/Program.h"
#include "runtime/kernels/LibraryCall.h"
#include "runtime/kernels/PoolingFields.h"

namespace pdc::runtime {

class PoolingGradient {
public:
  PoolingGradient(const Device &device, const PoolingFields &fields);
  void operator()(const Run &run, const float *dy, float *dx);
  void operator()(const Run &run, const float *dy, const void *positions, float *dx);

private:
  LibraryCall call;
};

} // namespace pdc::runtime
