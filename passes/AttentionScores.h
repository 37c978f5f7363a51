#pragma once

#include "passes/Composites.h"

namespace pdc {

/// What is done to the products of queries and keys before their softmax.
struct Scores {
  ir::NodeOp product;
  double scale = 1;
  mlir::Value mask;         ///< null: none but that of causal attention
  bool everyRowSees = true; ///< whether `mask` is known to let each query see a key
  std::optional<int64_t> past;
  bool hidesLater = false; ///< whether `mask` is known to show no query a key behind its own place
  /// Whether a constant hides keys by a finite number, which is exact where every row sees another:
  /// not under a second mask, for the two may hide a row that the scores then spread over its keys.
  bool hidesFinitely = false;

  bool isExact() const { return !(hidesFinitely && past && mask); }
  bool mayHideRows() const { return mask && (!everyRowSees || past); }
};

/// Reads scores, which so many uses read, back to the product; nothing where something else is done
/// to them.
std::optional<Scores> scoresBehind(mlir::Value value, unsigned uses, ConstantMasks &masks);

} // namespace pdc
