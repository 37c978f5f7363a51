#pragma once

#include "runtime/kernels/Dimensions.h"

#include <cstdint>

namespace pdc::runtime {

struct DropoutFields {
  Dimensions input; ///< shape, samples first
  int64_t key = 0;
  const char *layout = "";
  double ratio = 0.5;
};

} // namespace pdc::runtime
