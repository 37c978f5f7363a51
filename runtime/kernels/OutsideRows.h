#pragma once

#include <algorithm>
#include <cstdint>

namespace pdc::runtime {

/// The compiler computes rows of a tensor that is seen as one dimension from indices of several.
/// Where one of these is outside of its own dimension, the row is that index, within a half of this,
/// plus this for each such: behind all rows that a tensor has, so that no kernel takes another's.
inline constexpr int64_t kOutsideRows = int64_t(1) << 40;

/// The row of an index that is outside.
constexpr int64_t outsideRow(int64_t index) {
  constexpr int64_t most = kOutsideRows / 2;
  return std::clamp(index, -most, most) + kOutsideRows;
}

} // namespace pdc::runtime
