#pragma once

#include "runtime/Program.h"

namespace pdc::runtime {

/// Rows of neighbouring elements that are normalised, each by itself.
struct LayerNormalizationFields {
  int64_t centred = 1; ///< 0: a row's mean counts as 0 (the root of the mean square)
  double epsilon = 1e-5;
  int64_t rows = 0;
  int64_t size = 1; ///< elements of a row
};

} // namespace pdc::runtime
