#pragma once

#include "runtime/Error.h"
#include "runtime/cuda/Divisor.h"

#include <algorithm>
#include <limits>
#include <span>
#include <vector>

namespace pdc::runtime::cuda {

/// A row-major walk over a shape, with the offsets that its elements have under one or two lists of
/// strides. Passed to kernels by value; dimensions that follow each other in both lists are one.
struct StridedWalk {
  static constexpr int kMost = 16;
  int rank = 0;
  int64_t elements = 1;
  int64_t sizes[kMost] = {}, inputs[kMost] = {}, outputs[kMost] = {};

  StridedWalk(std::span<const int64_t> shape, std::span<const int64_t> inputStrides,
              std::span<const int64_t> outputStrides) {
    for (size_t d = 0; d < shape.size(); ++d) {
      elements *= shape[d];
      if (shape[d] != 1)
        append(shape[d], inputStrides[d], outputStrides[d]);
    }
    hasFew = elements <= std::numeric_limits<int32_t>::max();
    for (int d = 1; hasFew && d < rank; ++d)
      divisors[d] = Divisor<int32_t>(std::max<int64_t>(sizes[d], 1));
    isPacked = true;
    for (int64_t d = rank, stride = 1; d-- > 0; stride *= sizes[d])
      isPacked = isPacked && outputs[d] == stride;
  }
  StridedWalk(std::span<const int64_t> shape, std::span<const int64_t> strides)
      : StridedWalk(shape, strides, std::vector<int64_t>(shape.size(), 0)) {}

  PDC_EITHER int64_t from(int64_t i) const { return offset(i, inputs); }
  PDC_EITHER int64_t to(int64_t i) const { return isPacked ? i : offset(i, outputs); }

  /// Whether it turns matrices, one behind the other, each of sizes[rank - 2] columns, into packed
  /// ones.
  bool transposes() const {
    return isPacked &&
           (rank == 2 || (rank == 3 && inputs[0] == sizes[rank - 1] * sizes[rank - 2])) &&
           inputs[rank - 2] == 1 && inputs[rank - 1] == sizes[rank - 2];
  }

private:
  void append(int64_t size, int64_t input, int64_t output) {
    if (rank > 0 && inputs[rank - 1] == input * size && outputs[rank - 1] == output * size) {
      sizes[rank - 1] *= size;
      inputs[rank - 1] = input;
      outputs[rank - 1] = output;
      return;
    }
    if (rank == kMost)
      throw Error("a movement over more than ", kMost, " dimensions has no CUDA kernel");
    sizes[rank] = size;
    inputs[rank] = input;
    outputs[rank++] = output;
  }

  PDC_EITHER int64_t offset(int64_t i, const int64_t *strides) const {
    int64_t at = 0;
    if (hasFew)
      for (int d = rank - 1; d > 0; --d) {
        const int32_t n = static_cast<int32_t>(i), quotient = divisors[d].quotient(n);
        at += (n - quotient * divisors[d].value()) * strides[d];
        i = quotient;
      }
    else
      for (int d = rank - 1; d > 0; --d) {
        at += i % sizes[d] * strides[d];
        i /= sizes[d];
      }
    return at + i * strides[0];
  }

  bool hasFew = false;   ///< elements, so that 32 bits number them
  bool isPacked = false; ///< outputs
  Divisor<int32_t> divisors[kMost];
};

} // namespace pdc::runtime::cuda
