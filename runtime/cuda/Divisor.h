#pragma once

#include "runtime/cuda/Launch.h"

#include <bit>

namespace pdc::runtime::cuda {

/// A positive number that indices, which are not negative, are divided by.
template <class Index> class Divisor {
public:
  Divisor() = default;
  explicit Divisor(int64_t divisor) : divisor(static_cast<Index>(divisor)) {}
  PDC_EITHER Index quotient(Index n) const { return n / divisor; }
  PDC_EITHER Index value() const { return divisor; }

private:
  Index divisor = 1;
};

/// By a multiplication and a shift, where a division takes a GPU 20 instructions: with d <= 2^k,
/// f = ceil(2^(31 + k) / d) and n < 2^31, n f / 2^(31 + k) exceeds n / d by less than 1 / d
/// (Granlund and Montgomery, PLDI 1994, theorem 4.2).
template <> class Divisor<int32_t> {
public:
  Divisor() = default;
  explicit Divisor(int64_t divisor)
      : divisor(static_cast<int32_t>(divisor)),
        shift(31 + std::bit_width(static_cast<uint64_t>(divisor - 1))),
        factor(static_cast<uint32_t>(((uint64_t(1) << shift) - 1) / static_cast<uint64_t>(divisor) +
                                     1)) {}
  PDC_EITHER int32_t quotient(int32_t n) const {
    return static_cast<int32_t>(uint64_t(static_cast<uint32_t>(n)) * factor >> shift);
  }
  PDC_EITHER int32_t value() const { return divisor; }

private:
  int32_t divisor = 1;
  int shift = 31;
  uint32_t factor = uint32_t(1) << 31;
};

} // namespace pdc::runtime::cuda
