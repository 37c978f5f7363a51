#include "compiler/interpreter/Levels.h"

#include "compiler/Error.h"

#include <algorithm>
#include <set>

namespace pdc::interpreter {

using ir::Phase;

std::vector<mlir::Operation *> operationsOf(ir::StageOp stage, Phase phase) {
  std::vector<mlir::Operation *> operations;
  for (auto task : stage.getBody().getOps<ir::TaskOp>())
    if (task.getPhase() == phase)
      for (mlir::Operation &op : task.getBody().front())
        operations.push_back(&op);
  return operations;
}

void PlacedStage::run(Phase phase, int64_t microbatch) const {
  machine->run(operationsOf(op, phase), {id, phase, microbatch});
  if (phase == Phase::Update)
    machine->run(operationsOf(op, Phase::Prepare), {id, Phase::Prepare, microbatch});
}

std::vector<PlacedStage> placeStages(Machines &machines, mlir::ModuleOp module) {
  std::vector<PlacedStage> stages;
  for (auto program : module.getOps<ir::ProgramOp>()) {
    if (program.getRanks().size() != 1)
      throw Error("program '" + program.getSymName().str() + "' runs on " +
                  std::to_string(program.getRanks().size()) +
                  " ranks; only programs of one rank can be interpreted");
    machines.machines.push_back(std::make_unique<Machine>(
        machines, program.getSymName().str(), program.getRanks()[0], program.getBody()));
    Machine &machine = *machines.machines.back();
    for (auto stage : program.getBody().getOps<ir::StageOp>()) {
      if (auto slots = stage.getSlots())
        machine.setSlots(stage.getId(), {slots->begin(), slots->end()});
      stages.push_back({&machine, stage, static_cast<int64_t>(stage.getId())});
    }
  }
  std::sort(machines.machines.begin(), machines.machines.end(),
            [](const auto &a, const auto &b) { return a->getRank() < b->getRank(); });
  std::sort(stages.begin(), stages.end(),
            [](const PlacedStage &a, const PlacedStage &b) { return a.id < b.id; });
  return stages;
}

/// The inbox of a machine at the end of a transfer.
static Memory *findInbox(Machine &machine, ir::TransferAttr transfer) {
  for (auto &[name, memory] : machine.all())
    if (memory.role == ir::Role::Inbox && memory.op.getTransfers())
      for (mlir::Attribute own : memory.op.getTransfersAttr())
        if (llvm::cast<ir::TransferAttr>(own).getTag() == transfer.getTag())
          return &memory;
  return nullptr;
}

void handOver(Machine &from, Machine &to, const PlacedStage &stage, const Run &run) {
  for (mlir::Operation *op : operationsOf(stage.op, run.phase)) {
    auto write = llvm::dyn_cast<ir::WriteOp>(op);
    Memory *outbox = write ? from.find(write.getMemory()) : nullptr;
    if (!outbox || outbox->role != ir::Role::Outbox || !outbox->op.getTransfers())
      continue;
    for (mlir::Attribute attribute : outbox->op.getTransfersAttr()) {
      auto transfer = llvm::cast<ir::TransferAttr>(attribute);
      if (Memory *inbox = findInbox(to, transfer))
        to.put(inbox->name, from.take(outbox->name, run),
               {transfer.getTo(), run.phase, run.microbatch});
    }
  }
}

static void runAll(Machines &machines, const std::vector<PlacedStage> &stages,
                   std::initializer_list<Phase> phases, int64_t microbatch, bool reversed) {
  for (size_t i = 0; i < stages.size(); ++i) {
    const PlacedStage &stage = stages[reversed ? stages.size() - 1 - i : i];
    for (Phase phase : phases) {
      stage.run(phase, microbatch);
      for (const auto &to : machines.machines)
        handOver(*stage.machine, *to, stage, {stage.id, phase, microbatch});
    }
  }
}

/// Sums that several programs have a part of.
static void reduceShared(Machines &machines) {
  std::set<std::string> shared;
  for (const auto &machine : machines.machines)
    for (const auto &[name, memory] : machine->all()) {
      if (memory.role == ir::Role::Metric || memory.role == ir::Role::Gradient)
        shared.insert(name);
    }
  for (const std::string &name : shared)
    machines.reduce(name);
}

void runStaged(Machines &machines, mlir::ModuleOp module) {
  std::vector<PlacedStage> stages = placeStages(machines, module);
  // Slots belong to a schedule: without one each microbatch keeps its values.
  for (const PlacedStage &stage : stages) {
    stage.machine->setSlots(stage.id, {});
    stage.run(Phase::Prepare, 0);
  }
  for (int64_t step = 0; step < machines.input.updates; ++step) {
    int64_t first = step * machines.microbatches, last = first + machines.microbatches - 1;
    for (int64_t m = first; m <= last; ++m) {
      runAll(machines, stages, {Phase::Forward}, m, false);
      // A stage has one of both.
      runAll(machines, stages, {Phase::Backward, Phase::BackwardInput}, m, true);
      runAll(machines, stages, {Phase::BackwardWeight}, m, true);
    }
    if (!machines.asynchronous)
      reduceShared(machines);
    runAll(machines, stages, {Phase::Update}, last, false);
  }
  for (int64_t m = 0; m < machines.input.evaluations; ++m)
    runAll(machines, stages, {Phase::Evaluate}, m, false);
}

} // namespace pdc::interpreter
