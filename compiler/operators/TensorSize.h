#pragma once

#include "compiler/operators/Tensor.h"

namespace pdc {

inline constexpr int64_t kMostElementsOfTensor = int64_t(1) << 40;

/// Whether it has more, however many those are.
inline bool isTooLarge(const TensorType &type) {
  double count = 1;
  for (int64_t size : type.shape)
    count *= static_cast<double>(size);
  return count > static_cast<double>(kMostElementsOfTensor);
}

} // namespace pdc
