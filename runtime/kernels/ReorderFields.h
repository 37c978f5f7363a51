#pragma once

#include "runtime/kernels/Dimensions.h"

#include <cstdint>

namespace pdc::runtime {

struct ReorderFields {
  const char *from = "";
  const char *name = "";
  Dimensions shape;
  const char *to = "";
};

} // namespace pdc::runtime
