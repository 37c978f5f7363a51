#pragma once

#include "compiler/operators/Composition.h"
#include "passes/Nodes.h"

namespace pdc {

/// Rows along one dimension of a value, of which those count where the mask holds.
struct RowSelection {
  mlir::Value mask; ///< of as many elements as there are rows
  int64_t count = 0;
  int64_t axis = 0;
  int64_t inner = 1; ///< neighbours along the axis that belong to one row
};

/// Integers, known at compile time as if all rows were selected. An element that is not 0 says by
/// what the number of selected rows is multiplied.
struct RowCount {
  RowSelection rows;
  Tensor factors;
};

/// Rows that data select: pdc.SelectedRows and pdc.SelectedPlaces make them, and they are followed
/// through the nodes that compute each row for itself to those that bring rows together. There the
/// others become what counts for nothing, as the zeros of a sum or labels that a loss ignores.
/// Nodes that bring rows together in another way, or go by their positions, are refused.
class SelectedRows {
public:
  /// Whether the node reads such rows, or numbers that count them.
  bool concern(ir::NodeOp node) const;
  /// Whether the node is one whose parts look into rows by their position, which is right for each
  /// row: they are not followed, and `begin` says what its results are.
  bool hidesParts(ir::NodeOp node) const;
  /// Before a node is composed. The values are to take the place of its results; without any it is
  /// composed. The nodes that make them are not to be followed.
  std::vector<NodeValue> prepare(ir::NodeOp node, CompositionBuilder &builder);
  /// Before a composed node is erased: what its parts made takes its place. Throws Error.
  void begin(ir::NodeOp composed, mlir::ValueRange values);
  /// Follows the rows through a node whose results have their types. The values are to take the
  /// place of its results; without any it stays as it is. Throws Error. `isPart`: the node is part
  /// of a composition, which writes numbers of rows as if all were selected.
  std::vector<NodeValue> follow(const NodeFacts &facts, ir::NodeOp node,
                                CompositionBuilder &builder, bool isPart);
  /// Refuses to let rows that data select out of the function. Throws Error.
  void keepInside(mlir::Operation *op) const;
  /// A constant took the place of a value.
  void move(mlir::Value from, mlir::Value to);

private:
  friend class RowStep;

  void beginAlongRows(ir::NodeOp composed, mlir::ValueRange values);
  void refuseParameters(ir::NodeOp composed) const;

  llvm::DenseMap<mlir::Value, RowSelection> selections;
  llvm::DenseMap<mlir::Value, RowCount> counts;
  /// The same rows, with those that are not selected as they were.
  llvm::DenseMap<mlir::Value, mlir::Value> unfilled;
  llvm::DenseSet<mlir::Value> masked;      ///< in which only selected rows count
  llvm::DenseSet<mlir::Value> joinedMasks; ///< Concats of those of parts and of constants
};

} // namespace pdc
