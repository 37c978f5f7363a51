#pragma once

#include "runtime/Program.h"
#include "runtime/kernels/RotateHalvesFields.h"

namespace pdc::runtime {

/// y may be x.
class RotateHalves {
public:
  RotateHalves(const Device &device, const RotateHalvesFields &fields);
  void operator()(const Run &run, const float *x, const float *cosines, const float *sines,
                  float *y) const;

private:
  RotateHalvesFields fields;
  int64_t rows;
  int threads;
};

} // namespace pdc::runtime
