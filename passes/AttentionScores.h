#pragma once

#include "passes/Composites.h"

namespace pdc {

/// What is done to the products of queries and keys before their softmax.
struct Scores {
  ir::NodeOp product;
  double scale = 1;
  mlir::Value temperature;  ///< null, or one factor for all rows and keys of a head
  mlir::Value mask;         ///< null: none but that of causal attention
  bool isInverted = false;  ///< whether `mask` says what is hidden
  bool everyRowSees = true; ///< whether `mask` is known to let each query see a key
  std::optional<int64_t> past;
  bool hidesLater = false; ///< whether `mask` is known to show no query a key behind its own place
  /// Whether a constant hides keys by a finite number, which is exact where every row sees another:
  /// not under a second mask, for the two may hide a row that the scores then spread over its keys.
  bool hidesFinitely = false;
  /// Whether a finite number stands where `mask`, the only one, hides: a row that sees no key has
  /// equal shares of all, whatever its scores were.
  bool sharesEqually = false;

  /// A mask would be scaled, too, that is added before they are.
  bool areScaled() const { return scale != 1 || temperature; }
  bool isExact() const { return !(hidesFinitely && past && mask); }
  bool mayHideRows() const { return mask && (!everyRowSees || past); }
};

/// Reads scores, which so many uses read, back to the product; nothing where something else is done
/// to them.
std::optional<Scores> scoresBehind(mlir::Value value, unsigned uses, ConstantMasks &masks);

/// What a mask of flags lets be seen, before `root`, where it says what is hidden.
mlir::Value inverted(ir::NodeOp root, mlir::Value mask, NodeNames &names);

/// Queries, of [batch, heads, rows, width] as `shape` says in the order they lie in, by which
/// scores are those of the heads' temperatures, before `root`.
mlir::Value scaledBy(ir::NodeOp root, mlir::Value queries, const std::vector<int64_t> &shape,
                     int64_t rowsFirst, mlir::Value temperature, NodeNames &names);

/// Queries and a mask with which rows of which `seen` shows nothing have equal shares of all keys:
/// they see all by a query of zeros, for which each score is 0 and which passes no gradient on, as
/// nothing does whose score a number has replaced. `order`: how [batch, heads, rows, width] lie in
/// `queries`.
std::pair<mlir::Value, mlir::Value> shareEqually(ir::NodeOp root, mlir::Value queries,
                                                 mlir::ArrayRef<int64_t> order, mlir::Value seen,
                                                 NodeNames &names);

} // namespace pdc
