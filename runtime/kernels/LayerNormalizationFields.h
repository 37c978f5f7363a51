#pragma once

#include "runtime/Program.h"

namespace pdc::runtime {

/// Rows of neighbouring elements that are normalised, each by itself.
struct LayerNormalizationFields {
  double epsilon = 1e-5;
  int64_t rows = 0;
  int64_t size = 1; ///< elements of a row
};

} // namespace pdc::runtime
