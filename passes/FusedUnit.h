#pragma once

#include "compiler/devices/Device.h"
#include "compiler/ir/Pdc.h"

#include "mlir/IR/IRMapping.h"

namespace pdc {

/// Whether a unit may run where another stands behind it: nothing between stores into a memory that
/// it reads, since a value that is read is the memory's.
bool canWaitUntil(ir::UnitOp unit, mlir::Operation *place);

/// A unit that is to take the place of two, and of views between them.
class FusedUnit {
public:
  /// Stands behind `place`, and is planned as `second` is; costs what both cost.
  FusedUnit(ir::UnitOp first, ir::UnitOp second, mlir::Operation *place,
            mlir::ArrayRef<mlir::Value> operands, mlir::TypeRange results);

  /// The nodes of a unit, whose operands are operands of this one or results of units taken before.
  /// Returns what it yields.
  llvm::SmallVector<mlir::Value> take(ir::UnitOp part);
  ir::UnitOp finish(mlir::ValueRange yielded);

  /// What stands for an operand inside.
  mlir::Value inside(mlir::Value operand) const { return known.lookup(operand); }
  mlir::OpBuilder builder;

private:
  ir::UnitOp unit;
  mlir::IRMapping known;
};

/// Makes one unit, behind `place`, of a unit and of another that reads its last result, directly or
/// through views, and takes the place of the latter's results and of the former's others, which
/// come first. `isKept`: others read that last result, too, and read the unit's instead. What is
/// left of `first` and of the views is the caller's to erase.
ir::UnitOp fuseWithReader(ir::UnitOp first, mlir::ArrayRef<ir::UnitOp> views, ir::UnitOp reader,
                          mlir::Operation *place, mlir::ArrayRef<mlir::Value> operands,
                          bool isKept);

/// Makes one unit, behind `place`, whose results are those of both. The second one may read the
/// first one's.
ir::UnitOp fuseBeside(ir::UnitOp first, ir::UnitOp second, mlir::Operation *place,
                      mlir::ArrayRef<mlir::Value> operands);

/// Puts such a unit into the place of both.
void replace(ir::UnitOp first, ir::UnitOp second, ir::UnitOp fused);
/// The same where their only results go into sums, which then stand behind it.
void replaceSummed(ir::UnitOp first, ir::UnitOp second, ir::UnitOp fused);

/// As it was chosen, but for layouts and places, which the fused kernel's rule gives.
KernelChoice choiceOf(ir::UnitOp unit);

/// The sum over microbatches that a unit's only result goes into; null where it goes elsewhere.
ir::AccumulateOp sumOf(ir::UnitOp unit);

/// Fuses units in each stage, but where the module's units are measured by themselves.
mlir::LogicalResult fuseInStages(mlir::ModuleOp module, llvm::function_ref<void(ir::StageOp)> fuse);

} // namespace pdc
