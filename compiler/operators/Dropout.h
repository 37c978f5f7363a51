#pragma once

#include "compiler/operators/Tensor.h"

namespace pdc {

/// 32 random bits that depend on nothing but the arguments, so no split of the model changes them.
/// The runtime's kernels compute the same function.
uint32_t drawBits(uint64_t seed, uint64_t step, uint64_t sample, uint64_t key, uint64_t element);

} // namespace pdc
