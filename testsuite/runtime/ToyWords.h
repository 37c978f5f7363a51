#pragma once

#include <cstdint>

/// What the tasks of ScheduledToy compute, and its rule too: each result is a mixture of all that
/// it is made of.
namespace toy {

/// Numbers small enough that floats sum a minibatch of them without rounding, in any order.
inline constexpr uint32_t kMost = 1 << 12;

inline uint32_t mix(uint32_t a, uint32_t b) {
  uint64_t z = (a + 0x9E3779B97F4A7C15) * 0xBF58476D1CE4E5B9 + b;
  z = (z ^ (z >> 29)) * 0x94D049BB133111EB;
  return uint32_t(z >> 40) % kMost;
}

inline uint32_t initialWeight(int stage) { return mix(11, uint32_t(stage)); }

inline uint32_t forwardOf(int stage, uint32_t weight) { return mix(uint32_t(stage), weight); }
inline uint32_t backwardOf(uint32_t stash, uint32_t weight) { return mix(stash, weight); }
inline uint32_t weightGradientOf(uint32_t half, uint32_t stash) { return mix(half, stash + 1); }
inline uint32_t nextWeight(uint32_t weight, uint32_t first, uint32_t second) {
  return mix(mix(weight, first), second);
}

} // namespace toy
