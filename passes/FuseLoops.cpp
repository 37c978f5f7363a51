#include "passes/FusedUnit.h"
#include "passes/LayoutChanges.h"
#include "passes/Passes.h"
#include "passes/UnitFacts.h"
#include "passes/Values.h"

#include "llvm/ADT/SetVector.h"

namespace pdc {
#define GEN_PASS_DEF_FUSELOOPS
#include "passes/Passes.h.inc"
} // namespace pdc

using namespace mlir;
using namespace pdc;
using namespace pdc::ir;

namespace {

/// Whether a loop walks over a value of the type, as over its results, in the same order.
bool isWalked(Type type, UnitOp loop) {
  const Type result = loop.getResult(0).getType();
  return isa<RankedTensorType>(type) && toTensorType(type).shape == toTensorType(result).shape &&
         layoutOf(type) == layoutOf(result);
}

bool isLoop(UnitOp unit) {
  return unit.getKernel() && unit.getKernel()->getName() == "Elementwise" &&
         unit.getKernel()->getFields().empty() && !unit.getKernel()->getAccumulates();
}

/// What has to move before the place, in order, for the value to be there: reads of memories that
/// nothing stores into until then, and views of such. False where it cannot be.
bool collectMoved(Value value, Operation *place, llvm::SetVector<Operation *> &moved) {
  Operation *made = value.getDefiningOp();
  if (!made || made->isBeforeInBlock(place) || moved.contains(made))
    return true;
  if (isView(made)) {
    if (!collectMoved(made->getOperand(0), place, moved))
      return false;
  } else if (!isRead(made) || isStoredBetween(memoryOf(made), place, made)) {
    return false;
  }
  moved.insert(made);
  return true;
}

/// Whether nobody reads what the unit makes until the place.
bool isUnreadUntil(UnitOp unit, UnitOp place) {
  return llvm::all_of(unit->getUsers(),
                      [&](Operation *user) { return place->isBeforeInBlock(user); });
}

bool fit(UnitOp before, UnitOp unit) {
  return before->getBlock() == unit->getBlock() && before->isBeforeInBlock(unit) &&
         isLoop(before) && before.getPhase() == unit.getPhase() &&
         before.getRate() == unit.getRate() &&
         before.getNumResults() + unit.getNumResults() <= mostLoopResults &&
         isWalked(before.getResult(0).getType(), unit);
}

/// Moves what the unit reads before the place; false where that cannot be.
bool runAt(UnitOp unit, UnitOp place) {
  llvm::SetVector<Operation *> moved;
  const bool canMove = llvm::all_of(
      unit.getOperands(), [&](Value operand) { return collectMoved(operand, place, moved); });
  if (canMove)
    for (Operation *op : moved)
      op->moveBefore(place);
  return canMove;
}

void fuse(UnitOp before, UnitOp unit, UnitOp place) {
  llvm::SetVector<Value> operands(before.operand_begin(), before.operand_end());
  operands.insert(unit.operand_begin(), unit.operand_end());
  UnitOp made = fuseBeside(before, unit, place, operands.getArrayRef());
  applyChoice(made, chooseLoop(UnitFacts(made).view()));
  replace(before, unit, made);
}

/// With a loop before it that walks over one of its operands.
void fuse(UnitOp unit) {
  for (Value operand : unit.getOperands())
    if (isWalked(operand.getType(), unit))
      for (Operation *user : operand.getUsers())
        if (auto before = dyn_cast<UnitOp>(user); before && fit(before, unit)) {
          if (runAt(unit, before))
            return fuse(before, unit, before);
          if (isUnreadUntil(before, unit) && canWaitUntil(before, unit))
            return fuse(before, unit, unit);
        }
}

struct FuseLoops : pdc::impl::FuseLoopsBase<FuseLoops> {
  void runOnOperation() override {
    auto fuseIn = [](StageOp stage) {
      for (auto task : stage.getOps<TaskOp>())
        for (UnitOp unit : llvm::to_vector(task.getOps<UnitOp>()))
          if (isLoop(unit))
            fuse(unit);
    };
    if (failed(fuseInStages(getOperation(), fuseIn)))
      signalPassFailure();
  }
};

} // namespace
