#pragma once

#include "compiler/operators/Tensor.h"

namespace pdc {

/// 32 random bits that depend on nothing but the arguments, so no split of the model changes them.
/// The runtime's kernels compute the same function.
uint32_t drawBits(uint64_t seed, uint64_t step, uint64_t sample, uint64_t key, uint64_t element);

/// The 16 random bits by which dropout decides; four elements share what is mixed for them.
uint32_t dropoutBits(uint64_t seed, uint64_t step, uint64_t sample, uint64_t key, uint64_t element);

/// An element is kept where its bits are at least so many.
uint32_t dropoutThreshold(double ratio);

} // namespace pdc
