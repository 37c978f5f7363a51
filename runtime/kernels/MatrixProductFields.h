#pragma once

#include "runtime/kernels/Dimensions.h"

#include <algorithm>
#include <cstdint>
#include <span>

namespace pdc::runtime {

/// Shapes of rank 2 or more as stored, row-major; leading dimensions broadcast.
struct MatrixProductFields {
  Dimensions a;
  double alpha = 1;
  Dimensions b;
  Dimensions bias{}; ///< shape, of the output's rank; empty: none
  /// "a" or "b": the factor whose columns are summed, too, over all rows that the product adds up.
  const char *columnSums = "";
  /// Or "tf32": what f32 factors are rounded to; "bf16", "fp16": they, the bias and y are stored
  /// so.
  const char *compute = "fp32";
  int64_t keepsArgument = 0; ///< what GELU is of is written, too
  const char *name = "";
  Dimensions output;
  int64_t pitchA = 0; ///< elements from one row as stored to the next; 0: as many as it has
  int64_t pitchB = 0;
  int64_t pitchY = 0;
  int64_t relu = 0;
  const char *result = ""; ///< "fp32": what y is stored in whatever its factors are
  int64_t sums = 0;        ///< whether calls may add to y
  int64_t transA = 0;      ///< the last two dimensions are swapped
  int64_t transB = 0;
};

/// Whether a bias has one value per column of the output.
inline bool isColumnBias(std::span<const int64_t> bias, std::span<const int64_t> output) {
  return !bias.empty() && bias.back() == output.back() &&
         std::all_of(bias.begin(), bias.end() - 1, [](int64_t size) { return size == 1; });
}

} // namespace pdc::runtime
