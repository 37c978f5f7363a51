#pragma once

#include "runtime/cuda/Launch.h"

/// Kernels over many tensors, which travel as parameters: each tensor has blocks of its own.
namespace pdc::runtime::cuda {

/// What CUDA takes of parameters.
inline constexpr size_t kParameterBytes = 32764;

/// Which of `size` tensors a block belongs to: tensor i has blocks firstBlock[i] to
/// firstBlock[i + 1] - 1.
PDC_EITHER inline int tensorOf(const unsigned *firstBlock, int size, unsigned block) {
  int from = 0, to = size;
  while (to - from > 1) {
    const int middle = (from + to) / 2;
    (firstBlock[middle] <= block ? from : to) = middle;
  }
  return from;
}

} // namespace pdc::runtime::cuda
