#pragma once

#include "compiler/interpreter/Machine.h"

namespace pdc::interpreter {

/// Graph and cut level: @train and @evaluate of a module, as one program.
void runGraph(Machines &machines, mlir::ModuleOp module);

/// Staged level: tasks of all programs, stage after stage and microbatch after microbatch.
void runStaged(Machines &machines, mlir::ModuleOp module);

/// Scheduled level: all programs along their rows.
void runScheduled(Machines &machines, mlir::ModuleOp module);

/// The operations of a stage's task; nothing when it has no task for the phase.
std::vector<mlir::Operation *> operationsOf(ir::StageOp stage, ir::Phase phase);

/// A stage where it runs. Prepare follows each update, and precedes everything.
struct PlacedStage {
  Machine *machine = nullptr;
  ir::StageOp op;
  int64_t id = 0;

  void run(ir::Phase phase, int64_t microbatch) const;
};

/// Carries what a task has left in its outboxes to the inboxes of a machine, perhaps its own.
void handOver(Machine &from, Machine &to, const PlacedStage &stage, const Run &run);

/// One machine per program, and its stages in the order of their numbers.
std::vector<PlacedStage> placeStages(Machines &machines, mlir::ModuleOp module);

} // namespace pdc::interpreter
