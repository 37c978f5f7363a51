#pragma once

#include "compiler/ir/Conversion.h"
#include "passes/Nodes.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

namespace pdc {

/// What one consumer adds to the gradient of a value.
struct GradientTerm {
  int consumer; ///< position in the forward graph
  int operand;
  mlir::Value gradient;
  bool isClosed = false; ///< of later consumers, all of which have added theirs
  bool operator<(const GradientTerm &other) const {
    return std::tie(consumer, operand) < std::tie(other.consumer, other.operand);
  }
};

/// Adds the nodes that compute gradients through forward nodes, by the rules of their operators:
/// first every `want`, then `markActive` for each node in order, `seed`, `differentiate` for each
/// node backwards. All may throw Error.
class Backpropagation {
public:
  /// Backward nodes go where the builder stands. With origins they name their forward node;
  /// without, they are themselves nodes of a forward pass.
  Backpropagation(llvm::SmallVector<ir::NodeOp> forward, mlir::OpBuilder builder, NodeNames &names,
                  bool hasOrigins)
      : forward(std::move(forward)), builder(builder), names(names), hasOrigins(hasOrigins) {}

  llvm::ArrayRef<ir::NodeOp> nodes() const { return forward; }
  void want(mlir::Value value) { active.insert(value); }
  /// Whether a change of a wanted value changes this one, through operators that let gradients
  /// pass.
  bool isActive(mlir::Value value) const { return active.contains(value); }
  void markActive(ir::NodeOp node);
  void seed(mlir::Value value, mlir::Value gradient);
  void differentiate(int position);
  /// In the order of the consumers in the forward graph. Consumers that lie far behind others have
  /// become one term.
  llvm::SmallVector<GradientTerm> termsOf(mlir::Value value) const;
  /// The sum of the terms, named after the node that asks; null when there are none.
  mlir::Value gradientOf(mlir::Value value, ir::NodeOp asks);
  /// The name of the forward node for a backward node of it.
  llvm::StringRef originOf(ir::NodeOp node) const;

private:
  friend class RuleBuilder;

  void addTerm(mlir::Value value, GradientTerm term);
  void closeTerms(mlir::Value value);

  llvm::SmallVector<ir::NodeOp> forward;
  mlir::OpBuilder builder;
  NodeNames &names;
  bool hasOrigins;
  llvm::DenseSet<mlir::Value> active;
  llvm::DenseMap<mlir::Value, llvm::SmallVector<GradientTerm>> terms;
};

} // namespace pdc
