#pragma once

#include "compiler/ir/Pdc.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace pdc {

/// Where the units of a function are, by stages of an assignment or units of a plan, once what only
/// the sums of weights' gradients read has been brought forward. Gradients go to earlier places
/// only: such a unit is where the earliest gradient is that it reads, and of what only stacks
/// gradients it has a copy there, if the stack itself is earlier.
class GradientSums {
public:
  /// `placeOf`: of a unit by itself; negative: it has none.
  GradientSums(mlir::func::FuncOp function, llvm::function_ref<int64_t(ir::UnitOp)> placeOf);

  int64_t placeOf(ir::UnitOp unit) const { return places.lookup(unit); }
  /// Whether nothing but sums of weights' gradients reads what it makes, through others as well.
  bool feeds(ir::UnitOp unit) const { return feeders.contains(unit); }

private:
  int64_t earliestOf(mlir::Value gradient) const;

  llvm::DenseMap<mlir::Operation *, int64_t> places;
  llvm::DenseSet<mlir::Operation *> feeders;
};

} // namespace pdc
