#pragma once

#include "compiler/operators/Composition.h"
#include "passes/Nodes.h"

#include "llvm/ADT/DenseSet.h"

namespace pdc {

/// Values that depend on constants alone and are too large to be evaluated: they are computed
/// without the dimensions along which they repeat, as masks do over the samples, and an Expand
/// repeats them.
class RepeatedConstants {
public:
  /// Notes a node that stays, if it depends on constants alone.
  void note(ir::NodeOp node);

  /// What takes the place of such a node, a part of which is noted; nothing where it is as small as
  /// it can be.
  std::vector<NodeValue> shrink(const NodeFacts &facts, ir::NodeOp node,
                                CompositionBuilder &builder);

  /// Lets an elementwise node read what an Expand repeats, where another operand repeats it anyway.
  void readUnrepeated(const NodeFacts &facts, ir::NodeOp node);

private:
  bool isOfConstants(mlir::Value value) const;
  bool isNoted(ir::NodeOp node) const;
  /// The value without repetition; itself where it has none.
  NodeValue unrepeated(mlir::Value value, CompositionBuilder &builder) const;

  llvm::DenseSet<mlir::Value> noted;
};

} // namespace pdc
