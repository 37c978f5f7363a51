#include "passes/FusedUnit.h"
#include "passes/LayoutChanges.h"
#include "passes/Passes.h"
#include "passes/Refusal.h"
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

/// Results that a generated loop can write.
constexpr unsigned kMostResults = 3;

bool isTensor(Type type) { return isa<RankedTensorType>(type); }

/// Whether a loop walks over a value of the type, as over its results, in the same order.
bool isWalked(Type type, UnitOp loop) {
  if (!isTensor(type))
    return false;
  const Type result = loop.getResult(0).getType();
  return toTensorType(type).shape == toTensorType(result).shape &&
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

class LoopFuser {
public:
  explicit LoopFuser(TaskOp task) : task(task) {}

  void fuse() {
    for (UnitOp unit : llvm::to_vector(task.getOps<UnitOp>()))
      if (isLoop(unit))
        fuse(unit);
  }

private:
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

  /// Moves what the unit reads before the place, where that can be.
  static bool runAt(UnitOp unit, UnitOp place) {
    llvm::SetVector<Operation *> moved;
    const bool canMove = llvm::all_of(
        unit.getOperands(), [&](Value operand) { return collectMoved(operand, place, moved); });
    if (canMove)
      for (Operation *op : moved)
        op->moveBefore(place);
    return canMove;
  }

  static bool fit(UnitOp before, UnitOp unit) {
    return before->getBlock() == unit->getBlock() && before->isBeforeInBlock(unit) &&
           isLoop(before) && before.getPhase() == unit.getPhase() &&
           before.getRate() == unit.getRate() &&
           before.getNumResults() + unit.getNumResults() <= kMostResults &&
           isWalked(before.getResult(0).getType(), unit);
  }

  static void fuse(UnitOp before, UnitOp unit, UnitOp place) {
    llvm::SetVector<Value> operands(before.operand_begin(), before.operand_end());
    operands.insert(unit.operand_begin(), unit.operand_end());
    SmallVector<Type> types(before.getResultTypes());
    llvm::append_range(types, unit.getResultTypes());
    FusedUnit fused(before, unit, place, operands.getArrayRef(), types);
    SmallVector<Value> yielded = fused.take(before);
    yielded.append(fused.take(unit));
    UnitOp made = fused.finish(yielded);
    applyChoice(made, chooseLoop(UnitFacts(made).view()));
    before->replaceAllUsesWith(made.getResults().take_front(before.getNumResults()));
    unit->replaceAllUsesWith(made.getResults().take_back(unit.getNumResults()));
    before.erase();
    unit.erase();
  }

  TaskOp task;
};

struct FuseLoops : pdc::impl::FuseLoopsBase<FuseLoops> {
  void runOnOperation() override {
    if (getOperation()->hasAttr(kMeasuresUnitsAttribute))
      return;
    auto fuse = [&] {
      getOperation().walk([](TaskOp task) { LoopFuser(task).fuse(); });
      return success();
    };
    if (failed(runChecked(getOperation(), fuse)))
      signalPassFailure();
  }
};

} // namespace
