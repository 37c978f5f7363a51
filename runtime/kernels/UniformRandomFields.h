#pragma once

#include "runtime/kernels/Dimensions.h"

#include <cstdint>

namespace pdc::runtime {

struct UniformRandomFields {
  int64_t key = 0;
  Dimensions shape; ///< samples, and elements of each
};

} // namespace pdc::runtime
