#pragma once

#include <cstdint>
#include <vector>

namespace pdc::runtime {

/// Shapes of rank 2 or more as stored, row-major; leading dimensions broadcast.
struct MatrixProductFields {
  std::vector<int64_t> a;
  double alpha = 1;
  std::vector<int64_t> b;
  std::vector<int64_t> bias; ///< shape, of the output's rank; empty: none
  const char *name = "";
  std::vector<int64_t> output;
  int64_t relu = 0;
  int64_t transA = 0; ///< the last two dimensions are swapped
  int64_t transB = 0;
};

} // namespace pdc::runtime
