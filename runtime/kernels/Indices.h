#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace pdc::runtime {

/// Calls visit(a, b) for every index of `shape` in row-major order, with the offsets it has under
/// two sets of strides.
template <class Visit>
void forEachIndex(const std::vector<int64_t> &shape, const std::vector<int64_t> &stridesA,
                  const std::vector<int64_t> &stridesB, Visit visit) {
  std::array<int64_t, 32> index = {};
  for (int64_t size : shape)
    if (size == 0)
      return;
  int64_t a = 0, b = 0;
  while (true) {
    visit(a, b);
    size_t d = shape.size();
    for (; d-- > 0;) {
      a += stridesA[d], b += stridesB[d];
      if (++index[d] < shape[d])
        break;
      a -= stridesA[d] * shape[d], b -= stridesB[d] * shape[d];
      index[d] = 0;
    }
    if (d == static_cast<size_t>(-1))
      return;
  }
}

} // namespace pdc::runtime
