#include "passes/Passes.h"
#include "passes/Refusal.h"
#include "passes/ScheduleRows.h"
#include "passes/Values.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringMap.h"

namespace pdc {
#define GEN_PASS_DEF_VERIFYLEVEL
#include "passes/Passes.h.inc"
} // namespace pdc

using namespace mlir;
using namespace pdc::ir;

namespace pdc {
namespace {

/// Names are unique within a function or a program.
LogicalResult checkUnitNames(ArrayRef<UnitOp> units) {
  llvm::StringMap<UnitOp> seen;
  for (UnitOp unit : units)
    if (auto [known, isNew] = seen.try_emplace(unit.getName(), unit); !isNew)
      return unit.emitError() << "two units are named '" << unit.getName()
                              << "'; names are unique in a function";
  return success();
}

LogicalResult checkFunction(func::FuncOp function, bool isCut) {
  for (Operation &op : function.getOps()) {
    auto unit = dyn_cast<UnitOp>(op);
    if (!unit && !isa<ReadOp, WeightVersionOp, WriteOp, CommitOp, AccumulateOp, AbsentOp, CutOp,
                      func::ReturnOp>(op))
      return op.emitError() << "'" << op.getName()
                            << "' stands outside of a unit; run form-units first";
    if (isa<CutOp>(op) && !isCut)
      return op.emitError() << "a cut at level graph; stages are chosen later";
    if (unit && isCut && !unit.getStage())
      return unit.emitError() << "unit '" << unit.getName()
                              << "' has no stage; run assign-stages first";
    Value stored = storedValue(&op);
    if (stored && !stored.getDefiningOp<UnitOp>())
      return op.emitError() << "memory '" << memoryOf(&op).getValue()
                            << "' is given a value that no unit makes; a write is never a copy";
  }
  return checkUnitNames(llvm::to_vector(function.getOps<UnitOp>()));
}

/// At level cut every operand was made in the stage of its reader.
LogicalResult checkCrossings(func::FuncOp function) {
  for (UnitOp unit : function.getOps<UnitOp>())
    for (Value operand : unit.getOperands()) {
      Operation *definer = operand.getDefiningOp();
      std::optional<uint64_t> stage;
      if (auto producer = dyn_cast<UnitOp>(definer))
        stage = producer.getStage();
      if (auto cut = dyn_cast<CutOp>(definer))
        stage = cut.getTo();
      if (stage && *stage != *unit.getStage())
        return unit.emitError() << "unit '" << unit.getName() << "' of stage " << *unit.getStage()
                                << " reads '" << tensorName(operand) << "' of stage " << *stage
                                << " without a cut; run insert-cuts first";
    }
  return success();
}

LogicalResult checkTask(TaskOp task) {
  for (Operation &op : task.getOps())
    if (!isa<UnitOp, ReadOp, WeightVersionOp, WriteOp, CommitOp, AccumulateOp, AbsentOp, YieldOp>(
            op))
      return op.emitError() << "'" << op.getName() << "' stands in a task";
  return success();
}

/// What a stage must have, its backward pass whole or in halves.
SmallVector<ir::Phase> tasksOf(StageOp stage) {
  bool split = llvm::any_of(stage.getOps<TaskOp>(), [](TaskOp task) {
    return task.getPhase() == ir::Phase::BackwardInput;
  });
  SmallVector<ir::Phase> order = {ir::Phase::Prepare, ir::Phase::Forward};
  if (split)
    order.append({ir::Phase::BackwardInput, ir::Phase::BackwardWeight});
  else
    order.push_back(ir::Phase::Backward);
  order.append({ir::Phase::Update, ir::Phase::Evaluate});
  return order;
}

LogicalResult checkProgram(ProgramOp program) {
  for (auto stage : program.getOps<StageOp>()) {
    SmallVector<ir::Phase> order = tasksOf(stage);
    size_t number = 0;
    for (auto task : stage.getOps<TaskOp>()) {
      if (number >= order.size() || task.getPhase() != order[number++])
        return task.emitError() << "a stage has the tasks prepare, forward, backward (or "
                                   "backward_input, backward_weight), update, evaluate, in this "
                                   "order";
      if (failed(checkTask(task)))
        return failure();
    }
    if (number != order.size())
      return stage.emitError() << "stage " << stage.getId() << " has " << number
                               << " tasks, expected " << order.size();
  }
  return success();
}

LogicalResult checkBoxes(ProgramOp program) {
  for (auto memory : program.getOps<MemoryOp>()) {
    bool crosses = memory.getRole() == Role::Inbox || memory.getRole() == Role::Outbox;
    size_t transfers = memory.getTransfers() ? memory.getTransfers()->size() : 0;
    if (crosses != (transfers > 0) || (memory.getRole() == Role::Inbox && transfers != 1))
      return memory.emitError() << "memory '" << memory.getSymName() << "' of role "
                                << stringifyRole(memory.getRole()) << " has " << transfers
                                << " transfers";
  }
  return success();
}

LogicalResult checkScheduled(ProgramOp program) {
  if (!program.getArena() || !program.getRegions())
    return program.emitError() << "the program has no arena; run plan-memory first";
  if (!findScheduleOp(program, Rows::training) || !findScheduleOp(program, Rows::evaluation))
    return program.emitError() << "the program has no rows; run build-schedule first";
  for (auto memory : program.getOps<MemoryOp>())
    if (!memory.getHome() || memory.getHome()->getOffset() < 0 || !memory.getVariable())
      return memory.emitError() << "memory '" << memory.getSymName() << "' has no home or no name";
  WalkResult result = program.walk([&](UnitOp unit) {
    bool complete = unit.getHomes() && unit.getHomes()->size() == unit.getNumResults() &&
                    unit.getResultVariables() && unit.getVariable();
    if (complete)
      return WalkResult::advance();
    unit.emitError() << "unit '" << unit.getName() << "' has no homes or no names";
    return WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}

struct VerifyLevel : impl::VerifyLevelBase<VerifyLevel> {
  using VerifyLevelBase::VerifyLevelBase;

  void runOnOperation() override {
    if (failed(runChecked(getOperation(), [&] { return check(getOperation()); })))
      signalPassFailure();
  }

private:
  LogicalResult check(ModuleOp module) {
    if (level == "graph" || level == "cut")
      return checkGraph(module, level == "cut");
    if (level == "staged" || level == "scheduled")
      return checkPrograms(module, level == "scheduled");
    return module.emitError() << "unknown level '" << level
                              << "'; levels are graph, cut, staged, scheduled";
  }

  LogicalResult checkGraph(ModuleOp module, bool isCut) {
    for (auto function : module.getOps<func::FuncOp>())
      if (failed(checkFunction(function, isCut)) || (isCut && failed(checkCrossings(function))))
        return failure();
    return success();
  }

  LogicalResult checkPrograms(ModuleOp module, bool isScheduled) {
    for (Operation &op : module.getOps()) {
      auto program = dyn_cast<ProgramOp>(op);
      if (!program)
        return op.emitError() << "'" << op.getName()
                              << "' stands beside the programs; run "
                                 "outline-programs first";
      if (failed(checkProgram(program)) || failed(checkBoxes(program)) ||
          (isScheduled && failed(checkScheduled(program))))
        return failure();
    }
    return success();
  }
};

} // namespace
} // namespace pdc
