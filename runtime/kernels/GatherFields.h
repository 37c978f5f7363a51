#pragma once

#include "runtime/Program.h"

namespace pdc::runtime {

/// Along one dimension of `size`, `count` slices of `inner` elements are picked by index, `outer`
/// times.
struct GatherFields {
  int64_t count = 0;
  int64_t inner = 1;
  int64_t outer = 1;
  int64_t size = 0;
};

} // namespace pdc::runtime
