#pragma once

#include <cstdint>

/// Random bits that depend on nothing but their arguments, so that no split of a model and no
/// number of threads changes them. The compiler's reference computes the same function.
namespace pdc::runtime {

/// splitmix64's step.
constexpr uint64_t mixBits(uint64_t z) {
  z += 0x9E3779B97F4A7C15;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

/// What all elements of one sample share.
constexpr uint64_t samplePrefix(uint64_t seed, uint64_t step, uint64_t sample, uint64_t key) {
  uint64_t h = mixBits(seed ^ 0x9E3779B97F4A7C15);
  h = mixBits(h ^ step);
  h = mixBits(h ^ sample);
  return mixBits(h ^ key);
}

constexpr uint32_t drawBits(uint64_t prefix, uint64_t element) {
  return static_cast<uint32_t>(mixBits(prefix ^ element) >> 32);
}

/// A multiple of 2^-24 from 0 to below 1, all of them alike: no float is rounded to 1.
constexpr float uniformNumber(uint32_t bits) { return static_cast<float>(bits >> 8) * 0x1p-24f; }

/// Dropout compares 16 bits of an element: to mix them is most of what it costs, and four
/// neighbours share 64. Those of elements `first` to `first + 3`, the first's in the lowest bits.
constexpr uint64_t dropoutBits(uint64_t prefix, uint64_t first) {
  const uint64_t bits = mixBits(prefix ^ (first / 4));
  const unsigned shift = first % 4 * 16;
  return shift == 0 ? bits : bits >> shift | mixBits(prefix ^ (first / 4 + 1)) << (64 - shift);
}

/// Of them, those of the first element and of its neighbours.
constexpr uint32_t dropoutBitsOf(uint64_t bits, int neighbour) {
  return static_cast<uint16_t>(bits >> (16 * neighbour));
}

/// An element is kept where its bits are at least so many.
constexpr uint32_t dropoutThreshold(double ratio) {
  return static_cast<uint32_t>(ratio * 65536 + 0.5);
}

} // namespace pdc::runtime
