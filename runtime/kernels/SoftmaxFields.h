#pragma once

#include "runtime/Program.h"

namespace pdc::runtime {

/// Element k of row (o, i) is at (o * size + k) * inner + i.
struct SoftmaxFields {
  int64_t inner = 1;
  int64_t logarithm = 0;
  int64_t outer = 1;
  int64_t size = 1;
};

} // namespace pdc::runtime
