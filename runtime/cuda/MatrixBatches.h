#pragma once

#include "runtime/kernels/MatrixProductFields.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace pdc::runtime::cuda {

/// A matrix product y = op(a) op(b) over broadcast leading dimensions, as strided batches: `count`
/// products lie equally far apart, no more than the library takes, and that again for each of
/// `starts`. Strides and starts are in
/// elements; a stride of 0 repeats an operand.
struct MatrixBatches {
  struct Start {
    int64_t a, b, y;
  };
  int64_t rows, columns, inner;   ///< y is rows x columns
  int64_t pitchA, pitchB, pitchY; ///< from one row as stored to the next
  int64_t count = 1;
  int64_t strideA = 0, strideB = 0, strideY = 0;
  std::vector<Start> starts;

  explicit MatrixBatches(const MatrixProductFields &fields);
};

} // namespace pdc::runtime::cuda
