#pragma once

#include "runtime/Program.h"
#include "runtime/kernels/ChannelLayout.h"
#include "runtime/kernels/DropoutFields.h"

namespace pdc::runtime {

/// y = x / (1 - ratio) where kept, else 0. The same call is the gradient: the mask is drawn again.
/// `random` holds seed, step and one sample number for each sample.
class Dropout {
public:
  Dropout(const Device &device, const DropoutFields &fields);
  void operator()(const Run &run, const float *x, const int64_t *random, float *y);

private:
  DropoutFields fields;
  int64_t samples, channels, pixels, lanes;
  int threads;
};

} // namespace pdc::runtime
