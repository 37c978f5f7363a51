#pragma once

#include "runtime/kernels/Dimensions.h"

#include <cstdint>

namespace pdc::runtime {

struct ColumnSumFields {
  Dimensions input; ///< shape
  const char *layout = "";
  int64_t pitch = 0; ///< elements from one row of a matrix to the next; 0: as many as it has
};

} // namespace pdc::runtime
