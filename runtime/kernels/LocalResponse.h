#pragma once

#include "runtime/kernels/LocalResponseFields.h"

namespace pdc::runtime {

class LocalResponse {
public:
  LocalResponse(const Device &device, const LocalResponseFields &fields);
  void operator()(const Run &run, const float *x, float *y);

private:
  LocalResponseFields fields;
  int64_t batch, channels, pixels;
  int threads;
};

} // namespace pdc::runtime
