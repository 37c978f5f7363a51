#pragma once

#include "passes/AttentionMasks.h"

namespace pdc {

/// A factor for all rows and keys of a head, as Swin v2 and XCiT train it.
struct ScoreTemperature {
  mlir::Value value;
  bool divides = false;
  llvm::SmallVector<int64_t, 5> scoresShape = {}; ///< of what it is told for
};

/// What is done to the products of queries and keys before their softmax.
struct Scores {
  ir::NodeOp product; ///< a MatMul, or what has been made of one
  /// Dimensions before the last two, where there are the most of them: views divide them.
  llvm::SmallVector<int64_t, 3> leading;
  double scale = 1;
  std::optional<ScoreTemperature> temperature;
  llvm::SmallVector<ScoreMask, 2> masks; ///< from the softmax back

  void addForm(mlir::ArrayRef<int64_t> shape);
};

/// Reads scores, which so many uses read, back to the product; nothing where something else is done
/// to them.
std::optional<Scores> scoresBehind(mlir::Value value, unsigned uses);

/// What a view reads that leaves the last two dimensions as they are; else null.
mlir::Value viewedRows(mlir::Value value);

} // namespace pdc
