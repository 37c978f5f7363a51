#include "passes/Passes.h"
#include "passes/Refusal.h"
#include "passes/ScheduleRows.h"
#include "passes/Values.h"

#include "compiler/Error.h"

#include "llvm/ADT/DenseSet.h"

namespace pdc {
#define GEN_PASS_DEF_VERSIONWEIGHTS
#include "passes/Passes.h.inc"
} // namespace pdc

using namespace mlir;
using namespace pdc::ir;

namespace pdc {
namespace {

struct VersionWeights : impl::VersionWeightsBase<VersionWeights> {
  void runOnOperation() override {
    if (failed(runChecked(getOperation(), [&] { return run(); })))
      signalPassFailure();
  }

private:
  LogicalResult run() {
    for (auto program : getOperation().getOps<ProgramOp>())
      if (!refuseAt(program, [&] { version(program); }))
        return failure();
    return success();
  }

  void version(ProgramOp program) {
    ScheduleOp schedule = findScheduleOp(program, Rows::training);
    if (!schedule)
      throw Error("program @" + program.getSymName().str() +
                  " has no schedule; run build-schedule first");
    for (auto memory : program.getOps<MemoryOp>())
      if (memory.getRole() == Role::Weight || memory.getRole() == Role::Derived)
        memory.setDepth(1);
    if (!schedule.getAsynchronous())
      return;
    for (auto stage : program.getOps<StageOp>())
      keepVersions(program, stage, schedule.getWeights());
  }

  /// The backward task of a microbatch reads what its forward task read; with a rule for the
  /// version, both read that.
  void keepVersions(ProgramOp program, StageOp stage, std::optional<Version> rule) {
    int64_t versions = stage.getVersions().value_or(1);
    if (versions < 2)
      return;
    llvm::DenseSet<StringAttr> changing = findChanging(stage);
    SymbolTable memories(program);
    for (auto task : stage.getOps<TaskOp>()) {
      ir::Phase phase = taskPhaseOf(task);
      if (phase != ir::Phase::Backward && (!rule || phase != ir::Phase::Forward))
        continue;
      for (auto read : task.getOps<WeightVersionOp>()) {
        if (!changing.contains(read.getMemoryAttr().getAttr()))
          continue;
        read.setVersion(rule.value_or(Version::OfMicrobatch));
        memories.lookup<MemoryOp>(read.getMemory()).setDepth(versions);
      }
    }
  }

  static ir::Phase taskPhaseOf(TaskOp task) {
    bool backward =
        task.getPhase() == ir::Phase::BackwardInput || task.getPhase() == ir::Phase::BackwardWeight;
    return backward ? ir::Phase::Backward : task.getPhase();
  }

  /// What every update rewrites: committed weights and what the prepare task makes of them.
  static llvm::DenseSet<StringAttr> findChanging(StageOp stage) {
    llvm::DenseSet<StringAttr> changing;
    stage.walk([&](CommitOp commit) { changing.insert(commit.getMemoryAttr().getAttr()); });
    for (auto task : stage.getOps<TaskOp>())
      if (task.getPhase() == ir::Phase::Prepare)
        for (auto write : task.getOps<WriteOp>())
          if (dependsOn(write.getValue(), changing))
            changing.insert(write.getMemoryAttr().getAttr());
    return changing;
  }

  static bool dependsOn(Value value, const llvm::DenseSet<StringAttr> &changing) {
    Operation *definer = value.getDefiningOp();
    if (FlatSymbolRefAttr memory = memoryOf(definer))
      return changing.contains(memory.getAttr());
    return llvm::any_of(definer->getOperands(),
                        [&](Value operand) { return dependsOn(operand, changing); });
  }
};

} // namespace
} // namespace pdc
