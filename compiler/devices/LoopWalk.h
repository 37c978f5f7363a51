#pragma once

#include "compiler/devices/Device.h"

namespace pdc {

/// A walk over stored dimensions and the strides that arrays have along them. Dimensions that
/// follow each other in every array are one, those of one element none.
struct LoopWalk {
  std::vector<int64_t> extents;
  std::vector<std::vector<int64_t>> strides; ///< by array

  LoopWalk(const std::vector<StoredDimension> &stored,
           const std::vector<std::vector<int64_t>> &all);

  /// Those of some arrays, one behind the other.
  std::vector<int64_t> listed(size_t first, size_t count) const;

private:
  void addDimension(int64_t size, size_t d, const std::vector<std::vector<int64_t>> &all);
};

/// The strides of an operand along stored dimensions of a shape: of that shape it is stored so,
/// repeated along dimensions it is row-major.
std::vector<int64_t> stridesAlong(const TensorType &operand, const std::vector<int64_t> &shape,
                                  const std::vector<StoredDimension> &stored);

} // namespace pdc
