#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>

namespace pdc {

/// How the elements of a value lie, as one follows it back through what only moves them: each
/// dimension of the value is a product of factors of the dimensions that are asked for.
class DimensionFactors {
public:
  using Sizes = llvm::SmallVector<int64_t, 5>;

  /// Asked for are dimensions of `sizes`; dimension d of the value is number `asked[d]` of them.
  /// Those that the value lacks are of size 1.
  DimensionFactors(Sizes sizes, llvm::ArrayRef<int64_t> asked);

  const Sizes &sizes() const { return asked; }

  /// From the result of a transposition to its operand.
  void passTransposition(llvm::ArrayRef<int64_t> permutation);
  /// From its operand to its result.
  void follow(llvm::ArrayRef<int64_t> permutation);
  /// From a view to what is viewed, or the other way round; false, and as before, where a dimension
  /// of `shape` is no product of factors.
  bool passView(llvm::ArrayRef<int64_t> shape);
  /// From what is repeated along dimensions of size 1 to what is repeated: `dimension` of those
  /// asked for has fewer elements, of which each served neighbours. False, and as before, where
  /// something else is repeated.
  bool passRepetition(llvm::ArrayRef<int64_t> shape, int64_t dimension);

  /// Whether memory holds the asked dimensions whole, in this order, the slowest first.
  bool lieAs(llvm::ArrayRef<int64_t> order) const;

private:
  /// Index i of a dimension asked for is the sum of its factors' indices times `step`.
  struct Factor {
    int64_t dimension, size, step;
  };
  using Factors = llvm::SmallVector<Factor, 2>;

  Sizes asked;
  llvm::SmallVector<Factors, 5> dimensions; ///< of the value; none has a factor of size 1
};

} // namespace pdc
