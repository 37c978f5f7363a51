#pragma once

#include "passes/Nodes.h"

#include "llvm/ADT/DenseMap.h"

#include <map>
#include <memory>

namespace pdc {

/// Neighbouring elements of a row, up to where the next run begins, each by `step` above the one
/// before it.
struct Run {
  int64_t begin;
  double first;
  double step;
};
using Runs = std::vector<Run>;

/// Elements of a row, one after another, as runs: a step is 0, or a whole number by which whole
/// numbers go on, so that what is computed of runs is exact.
Runs runsOf(const Tensor &tensor, int64_t firstElement, int64_t count);

/// A value by its rows, which its last dimension goes along: a mask of millions of flags is a few
/// runs in each row.
struct RunRows {
  ElementType element;
  std::vector<int64_t> shape; ///< of rank 1 or more
  std::vector<int64_t> held;  ///< of the dimensions before the last: 1 where rows repeat
  std::vector<Runs> rows;     ///< of `held`
};

/// What depends on constants alone, by runs, where it is too large to be evaluated: as the masks of
/// long sequences are, which compare places.
class ConstantRows {
public:
  /// Null where a value depends on more than constants, or in ways that are not followed. Equal
  /// values have one address as long as this lives, whatever becomes of their nodes.
  const RunRows *find(mlir::Value value) {
    Known known;
    return entryOf(value, 0, known).second;
  }

private:
  /// What MLIR holds once is the same where its address is; operands are the same where theirs are.
  using Key = std::vector<const void *>;
  /// The first is null for what was never followed, the second for what cannot be.
  using Entry = std::pair<const void *, const RunRows *>;

  /// Of one search: many nodes may read one.
  using Known = llvm::DenseMap<mlir::Value, Entry>;

  Entry entryOf(mlir::Value value, int depth, Known &known);
  Entry follow(mlir::Value value, int depth, Known &known);

  std::map<Key, std::unique_ptr<RunRows>> entries;
};

/// `sizes` of dimensions `from` as those of `to`, where a view only adds dimensions of size 1 or
/// leaves such out; nothing for other views.
std::optional<std::vector<int64_t>> seenAs(const std::vector<int64_t> &from,
                                           const std::vector<int64_t> &to,
                                           const std::vector<int64_t> &sizes);

} // namespace pdc
