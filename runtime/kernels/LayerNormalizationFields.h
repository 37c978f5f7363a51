#pragma once

#include "runtime/Program.h"

namespace pdc::runtime {

/// Rows of neighbouring elements that are normalised, each by itself.
///
/// Kernels for GPUs also add: forward two images, whose sum is normalised; in the gradient an
/// `addend` to what is made, and several `terms` that arrive. A sum that others want, too, is the
/// first result. `sumsBias`: the scale's gradient comes with the bias's.
struct LayerNormalizationFields {
  static constexpr int64_t kMostTerms = 4;
  int64_t addend = 0;
  int64_t centred = 1; ///< 0: a row's mean counts as 0 (the root of the mean square)
  double epsilon = 1e-5;
  int64_t keepsSum = 0;
  int64_t rows = 0;
  int64_t size = 1; ///< elements of a row
  int64_t sumsBias = 0;
  int64_t terms = 1;
};

} // namespace pdc::runtime
