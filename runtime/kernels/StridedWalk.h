#pragma once

#include "runtime/kernels/Dimensions.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace pdc::runtime {

/// Fewer elements are not worth waking threads for.
inline constexpr int64_t kParallelWalk = 16384;

inline int64_t product(std::span<const int64_t> sizes) {
  int64_t result = 1;
  for (int64_t size : sizes)
    result *= size;
  return result;
}

/// Takes the last dimension off: its size (1 where there is none).
inline int64_t takeInner(Dimensions &shape) {
  if (shape.empty())
    return 1;
  const int64_t inner = shape.back();
  shape.pop_back();
  return inner;
}

/// The offset that element `index` of a row-major walk over `shape` has under other strides.
inline int64_t offsetAt(int64_t index, std::span<const int64_t> shape,
                        std::span<const int64_t> strides) {
  int64_t offset = 0;
  for (size_t d = shape.size(); d-- > 0; index /= shape[d])
    offset += index % shape[d] * strides[d];
  return offset;
}

} // namespace pdc::runtime
