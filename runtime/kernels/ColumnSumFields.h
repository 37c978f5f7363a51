#pragma once

#include "runtime/kernels/Dimensions.h"

#include <cstdint>

namespace pdc::runtime {

struct ColumnSumFields {
  Dimensions input; ///< shape
  const char *layout = "";
};

} // namespace pdc::runtime
