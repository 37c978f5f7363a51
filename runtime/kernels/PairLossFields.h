#pragma once

#include "runtime/Program.h"

#include <cstdint>

namespace pdc::runtime {

/// A loss that compares `count` predictions with as many targets.
struct PairLossFields {
  int64_t count = 0;
  const char *kind = ""; ///< MeanSquaredError, MeanAbsoluteError, BinaryCrossEntropyWithLogits
};

} // namespace pdc::runtime
