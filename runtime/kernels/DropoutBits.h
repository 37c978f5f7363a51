#pragma once

#include "runtime/kernels/Random.h"

#include <array>
#include <cstring>

namespace pdc::runtime {

/// What dropout draws for some neighbours, side by side, so that loops over them are vectorised.
class DropoutBits {
public:
  static constexpr int64_t kCount = 256;

  DropoutBits(uint64_t prefix, uint64_t first) {
    std::array<uint64_t, kCount / 4> drawn;
#pragma omp simd
    for (int64_t i = 0; i < kCount / 4; ++i)
      drawn[i] = dropoutBits(prefix, first + 4 * i);
    std::memcpy(bits.data(), drawn.data(), sizeof bits);
  }
  uint32_t operator[](int64_t i) const { return bits[i]; }

private:
  std::array<uint16_t, kCount> bits;
};

} // namespace pdc::runtime
