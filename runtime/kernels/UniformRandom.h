#pragma once

#include "runtime/Program.h"
#include "runtime/kernels/UniformRandomFields.h"

namespace pdc::runtime {

/// y: numbers from 0 to below 1. `random` holds seed, step and one sample number for each sample.
class UniformRandom {
public:
  UniformRandom(const Device &device, const UniformRandomFields &fields)
      : fields(fields), threads(device.threads) {}
  void operator()(const Run &run, const int64_t *random, float *y) const;

private:
  UniformRandomFields fields;
  int threads;
};

} // namespace pdc::runtime
