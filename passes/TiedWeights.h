#pragma once

#include "compiler/ir/Pdc.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/EquivalenceClasses.h"

#include <set>
#include <string>

namespace pdc {

/// Trained weights, each with what is made of it once per version (packed copies, views): a family.
/// Weights that one such copy is made of are of one family.
class WeightFamilies {
public:
  explicit WeightFamilies(mlir::ModuleOp module);

  /// The family of a value that changes with a weight's version alone; empty: of none.
  std::string of(mlir::Value value) const;

  /// Of the units that run with each microbatch, in order, what they read of families.
  struct Use {
    ir::UnitOp unit;
    mlir::OpOperand *operand;
    std::string family;
  };
  std::vector<Use> usesIn(mlir::func::FuncOp function) const;

private:
  void follow(mlir::Operation &op);

  llvm::EquivalenceClasses<std::string> families; ///< of memories
  llvm::DenseMap<mlir::Value, std::string> made;  ///< by value, a memory of its family
};

} // namespace pdc
