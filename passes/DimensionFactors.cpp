#include "passes/DimensionFactors.h"

#include "llvm/ADT/STLExtras.h"

namespace pdc {

using llvm::ArrayRef;
using llvm::SmallVector;

DimensionFactors::DimensionFactors(Sizes sizes, ArrayRef<int64_t> asked) : asked(std::move(sizes)) {
  for (int64_t d : asked) {
    Factors &factors = dimensions.emplace_back();
    if (const int64_t size = this->asked[static_cast<size_t>(d)]; size != 1)
      factors.push_back({d, size, 1});
  }
}

void DimensionFactors::passTransposition(ArrayRef<int64_t> permutation) {
  SmallVector<Factors, 5> before(dimensions.size());
  for (auto [d, of] : llvm::enumerate(permutation))
    before[static_cast<size_t>(of)] = dimensions[d];
  dimensions = std::move(before);
}

void DimensionFactors::follow(ArrayRef<int64_t> permutation) {
  SmallVector<Factors, 5> behind;
  for (int64_t of : permutation)
    behind.push_back(dimensions[static_cast<size_t>(of)]);
  dimensions = std::move(behind);
}

bool DimensionFactors::passView(ArrayRef<int64_t> shape) {
  SmallVector<Factor> left; // the fastest first
  for (const Factors &factors : llvm::reverse(dimensions))
    llvm::append_range(left, llvm::reverse(factors));
  SmallVector<Factors, 5> before;
  for (int64_t size : shape) {
    Factors &factors = before.emplace_back();
    while (size != 1) {
      if (left.empty() || size == 0)
        return false;
      Factor factor = left.pop_back_val();
      if (size % factor.size != 0) {
        if (factor.size % size != 0)
          return false;
        // Its slower part is of this dimension, the rest of the next one.
        const int64_t rest = factor.size / size;
        left.push_back({factor.dimension, rest, factor.step});
        factor = {factor.dimension, size, factor.step * rest};
      }
      factors.push_back(factor);
      size /= factor.size;
    }
  }
  if (!left.empty())
    return false;
  dimensions = std::move(before);
  return true;
}

bool DimensionFactors::passRepetition(ArrayRef<int64_t> shape, int64_t dimension) {
  if (shape.size() != dimensions.size())
    return false;
  int64_t times = 1;
  SmallVector<Factors, 5> before = dimensions;
  for (auto [size, factors] : llvm::zip_equal(shape, before)) {
    if (size != 1 || factors.empty())
      continue;
    if (times != 1 || factors.size() != 1 || factors[0].dimension != dimension ||
        factors[0].step != 1)
      return false;
    times = factors[0].size;
    factors.clear();
  }
  for (Factors &factors : before)
    for (Factor &factor : factors)
      if (factor.dimension == dimension)
        factor.step /= times;
  asked[static_cast<size_t>(dimension)] /= times;
  dimensions = std::move(before);
  return true;
}

bool DimensionFactors::lieAs(ArrayRef<int64_t> order) const {
  SmallVector<Factor> lying;
  for (const Factors &factors : dimensions)
    llvm::append_range(lying, factors);
  const Factor *next = lying.begin();
  for (int64_t d : order)
    for (int64_t size = asked[static_cast<size_t>(d)]; size != 1; size = next++->step)
      if (next == lying.end() || next->dimension != d || next->size * next->step != size)
        return false;
  return next == lying.end();
}

} // namespace pdc
