#include "compiler/devices/LoopWalk.h"

#include "compiler/operators/Rules.h"

namespace pdc {

LoopWalk::LoopWalk(const std::vector<StoredDimension> &stored,
                   const std::vector<std::vector<int64_t>> &all)
    : strides(all.size()) {
  for (size_t d = 0; d < stored.size(); ++d)
    if (stored[d].size != 1)
      addDimension(stored[d].size, d, all);
  if (extents.empty())
    addDimension(1, 0, std::vector(all.size(), std::vector<int64_t>{0}));
}

void LoopWalk::addDimension(int64_t size, size_t d, const std::vector<std::vector<int64_t>> &all) {
  bool merges = !extents.empty();
  for (size_t i = 0; i < all.size(); ++i)
    merges = merges && strides[i].back() == all[i][d] * size;
  if (merges)
    extents.back() *= size;
  else
    extents.push_back(size);
  for (size_t i = 0; i < all.size(); ++i) {
    if (merges)
      strides[i].pop_back();
    strides[i].push_back(all[i][d]);
  }
}

std::vector<int64_t> LoopWalk::listed(size_t first, size_t count) const {
  std::vector<int64_t> list;
  for (size_t i = first; i < first + count; ++i)
    list.insert(list.end(), strides[i].begin(), strides[i].end());
  return list;
}

std::vector<int64_t> stridesAlong(const TensorType &operand, const std::vector<int64_t> &shape,
                                  const std::vector<StoredDimension> &stored) {
  const std::vector<int64_t> repeated = broadcastStrides(operand.shape, shape);
  std::vector<int64_t> strides;
  for (const StoredDimension &dimension : stored)
    strides.push_back(operand.shape == shape ? dimension.stride
                                             : repeated[dimension.dimension] * dimension.step);
  return strides;
}

} // namespace pdc
