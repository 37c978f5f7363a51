#include "passes/ScheduleRows.h"

#include "compiler/Error.h"
#include "compiler/schedule/Proof.h"
#include "compiler/schedule/Replicas.h"
#include "compiler/schedule/Rows.h"
#include "passes/Buffers.h"
#include "passes/Values.h"

#include "llvm/ADT/SetVector.h"

#include <map>
#include <optional>
#include <set>
#include <utility>

using namespace mlir;
using namespace pdc::ir;

namespace pdc {

static constexpr std::pair<Phase, ir::Phase> phases[] = {
    {Phase::forward, ir::Phase::Forward},
    {Phase::backward, ir::Phase::Backward},
    {Phase::backwardInput, ir::Phase::BackwardInput},
    {Phase::backwardWeight, ir::Phase::BackwardWeight},
    {Phase::update, ir::Phase::Update},
    {Phase::prepare, ir::Phase::Prepare},
    {Phase::evaluate, ir::Phase::Evaluate}};

/// Of the rules that choose a version by number.
static constexpr std::pair<WeightRule, Version> weightRules[] = {
    {WeightRule::atEntry, Version::AtEntry}, {WeightRule::previous, Version::Previous}};

Phase toPhase(ir::Phase phase) {
  return llvm::find_if(phases, [&](auto &pair) { return pair.second == phase; })->first;
}

ir::Phase toPhase(Phase phase) {
  return llvm::find_if(phases, [&](auto &pair) { return pair.first == phase; })->second;
}

/// The phase of the first task that writes or reads a memory.
static std::optional<ir::Phase> phaseOfUse(const FirstTasks &tasks, MemoryOp memory) {
  TaskOp task = tasks.of(memory.getSymNameAttr());
  return task ? std::optional(task.getPhase()) : std::nullopt;
}

namespace {
/// The two ends of one edge while they are being found.
struct Ends {
  TransferAttr transfer;
  std::string outbox, inbox;
  std::optional<ir::Phase> producer, consumer;
  int64_t bytes = 0;
};
} // namespace

static std::map<int64_t, Ends> findEnds(ModuleOp module) {
  std::map<int64_t, Ends> byTag;
  for (auto program : module.getOps<ProgramOp>()) {
    const FirstTasks tasks(program);
    for (auto memory : program.getOps<MemoryOp>()) {
      if (!memory.getTransfers())
        continue;
      for (mlir::Attribute transfer : memory.getTransfersAttr()) {
        auto known = cast<TransferAttr>(transfer);
        Ends &ends = byTag[known.getTag()];
        ends.transfer = known;
        ends.bytes = bytesOf(memory.getType());
        bool sends = memory.getRole() == Role::Outbox;
        (sends ? ends.outbox : ends.inbox) = memory.getSymName().str();
        (sends ? ends.producer : ends.consumer) = phaseOfUse(tasks, memory);
      }
    }
  }
  return byTag;
}

TaggedEdges findEdges(ModuleOp module, Rows rows) {
  TaggedEdges found;
  for (auto &[tag, ends] : findEnds(module)) {
    if (!ends.producer || !ends.consumer)
      throw Error("'" + (ends.outbox.empty() ? ends.inbox : ends.outbox) + "' crosses from stage " +
                  std::to_string(ends.transfer.getFrom()) + " to stage " +
                  std::to_string(ends.transfer.getTo()) + " but one side never touches it");
    if ((*ends.producer == ir::Phase::Evaluate) != (rows == Rows::evaluation))
      continue;
    found.edges.push_back({static_cast<int>(found.edges.size()), ends.outbox,
                           static_cast<int>(ends.transfer.getFrom()),
                           static_cast<int>(ends.transfer.getTo()), toPhase(*ends.producer),
                           toPhase(*ends.consumer), ends.bytes});
    found.tags.push_back(tag);
    found.inboxes.push_back(ends.inbox);
  }
  return found;
}

ScheduleOp findScheduleOp(ProgramOp program, Rows rows, std::optional<int64_t> rank) {
  for (auto schedule : program.getOps<ScheduleOp>())
    if (schedule.getEvaluation() == (rows == Rows::evaluation) &&
        (!rank || *rank == static_cast<int64_t>(schedule.getRank().value_or(*rank))))
      return schedule;
  return {};
}

bool updatesEachMicrobatch(ProgramOp program) {
  ScheduleOp schedule = findScheduleOp(program, Rows::training);
  return schedule && schedule.getMicrobatches() == 1;
}

static Step readStep(Operation &op, const TaggedEdges &edges) {
  if (auto run = dyn_cast<RunOp>(op))
    return {StepKind::run,
            {static_cast<int>(run.getStage()), toPhase(run.getPhase()),
             static_cast<int64_t>(run.getMicrobatch())}};
  if (auto sum = dyn_cast<AllReduceOp>(op); sum && sum.getStage())
    return {StepKind::reduceGradients,
            {static_cast<int>(*sum.getStage()), Phase::update,
             static_cast<int64_t>(*sum.getMicrobatch())}};
  if (isa<AllReduceOp>(op))
    return {.kind = StepKind::allReduce};
  auto transfer = [&](StepKind kind, auto row) {
    const auto tag = static_cast<int64_t>(row.getTag());
    auto at = llvm::lower_bound(edges.tags, tag);
    if (at == edges.tags.end() || *at != tag)
      throw Error("a row names tag " + std::to_string(row.getTag()) + ", which no memory has");
    const Edge &edge = edges.edges[at - edges.tags.begin()];
    return Step{kind,
                {static_cast<int>(row.getStage()),
                 kind == StepKind::send ? edge.producer : edge.consumer,
                 static_cast<int64_t>(row.getMicrobatch())},
                edge.id,
                static_cast<int>(row.getPeer())};
  };
  if (auto send = dyn_cast<SendOp>(op))
    return transfer(StepKind::send, send);
  if (auto receive = dyn_cast<RecvOp>(op))
    return transfer(StepKind::receive, receive);
  throw Error("'" + op.getName().getStringRef().str() + "' is no row of a schedule");
}

static std::vector<Step> readSteps(Region &region, const TaggedEdges &edges) {
  std::vector<Step> steps;
  for (Operation &op : region.getOps())
    steps.push_back(readStep(op, edges));
  return steps;
}

static void readStages(ProgramOp program, Schedule &schedule) {
  for (auto stage : program.getOps<StageOp>()) {
    size_t id = stage.getId();
    if (schedule.ranksOfStage.size() <= id) {
      schedule.ranksOfStage.resize(id + 1);
      schedule.slotTable.resize(id + 1, {0});
      schedule.slots.resize(id + 1, 1);
      schedule.versions.resize(id + 1, 1);
    }
    schedule.ranksOfStage[id].assign(program.getRanks().begin(), program.getRanks().end());
    if (auto slots = stage.getSlots(); slots && !slots->empty()) {
      schedule.slotTable[id].assign(slots->begin(), slots->end());
      schedule.slots[id] = *llvm::max_element(schedule.slotTable[id]) + 1;
    }
    schedule.versions[id] = static_cast<int>(stage.getVersions().value_or(1));
  }
}

Schedule readSchedule(ModuleOp module, Rows rows, const TaggedEdges &edges) {
  Schedule schedule;
  for (auto program : module.getOps<ProgramOp>()) {
    for (int64_t rank : program.getRanks()) {
      ScheduleOp op = findScheduleOp(program, rows, rank);
      if (!op)
        throw Error("program @" + program.getSymName().str() + " has no schedule for rank " +
                    std::to_string(rank) + "; run build-schedule first");
      schedule.name = op.getName().str();
      schedule.asynchronous = op.getAsynchronous();
      for (auto [rule, version] : weightRules)
        if (op.getWeights() == version)
          schedule.weightRule = rule;
      schedule.microbatches = op.getMicrobatches();
      schedule.period = op.getPeriod();
      schedule.ranks.resize(std::max<size_t>(schedule.ranks.size(), rank + 1));
      schedule.ranks[rank] = {readSteps(op.getWarmUp(), edges), readSteps(op.getRepeat(), edges),
                              readSteps(op.getDrain(), edges)};
    }
    readStages(program, schedule);
  }
  if (rows == Rows::evaluation) {
    schedule.slots.assign(schedule.slots.size(), evaluationCopies);
    schedule.slotTable.assign(schedule.slotTable.size(), {0, 1});
  }
  checkRows(schedule, edges.edges);
  return schedule;
}

ReadRows readRows(ModuleOp module, Rows rows) {
  TaggedEdges edges = findEdges(module, rows);
  Schedule schedule = readSchedule(module, rows, edges);
  return {std::move(edges), std::move(schedule)};
}

std::vector<llvm::StringSet<>> findEarlyArrivals(ModuleOp module) {
  const auto [edges, schedule] = readRows(module, Rows::training);
  const StageEdges ofStages(edges.edges, schedule.stages());
  std::vector<int64_t> rounds = {iterationsToSettle(schedule)};
  UnrolledRows rows = unroll(schedule, rounds);
  std::vector<llvm::StringSet<>> all;
  for (auto program : module.getOps<ProgramOp>()) {
    std::set<std::pair<int, int64_t>> forwarded;
    llvm::StringSet<> &early = all.emplace_back();
    auto arrive = [&](const Edge &edge, int64_t microbatch) {
      if (!forwarded.contains({edge.toStage, microbatch}))
        early.insert(edges.inboxes[edge.id]);
    };
    for (int64_t rank : program.getRanks())
      for (const Action &action : rows.ranks[rank])
        for (const Step &step : action.steps) {
          const Task &task = step.task;
          if (step.kind == StepKind::receive)
            arrive(edges.edges[step.edge], task.microbatch);
          if (step.kind != StepKind::run)
            continue;
          if (task.phase == Phase::forward)
            forwarded.insert({task.stage, task.microbatch});
          for (const Edge *edge : ofStages.leaving(task.stage))
            if (handsOver(schedule, task, *edge))
              arrive(*edge, task.microbatch);
        }
  }
  return all;
}

/// What the sum over all ranks brings to this program: the metrics that its tasks of training
/// accumulate, and gradients of tied weights that other stages sum.
static ArrayAttr findTotals(ProgramOp program) {
  Builder builder(program.getContext());
  const FirstTasks tasks(program);
  SmallVector<mlir::Attribute> names;
  for (auto memory : program.getOps<MemoryOp>()) {
    if (memory.getRole() == Role::Gathered)
      names.push_back(FlatSymbolRefAttr::get(memory.getSymNameAttr()));
    if (memory.getRole() != Role::Metric)
      continue;
    auto phase = phaseOfUse(tasks, memory);
    if (phase && *phase != ir::Phase::Evaluate)
      names.push_back(FlatSymbolRefAttr::get(memory.getSymNameAttr()));
  }
  return builder.getArrayAttr(names);
}

/// What replicas of a stage bring together at an update: the gradients, in the order in which the
/// backward pass makes them, and the states that its tasks write.
static ArrayAttr findReplicated(ProgramOp program, int stage) {
  llvm::SetVector<mlir::Attribute> gradients, states;
  const SymbolTable symbols(program);
  auto touch = [&](Operation *op) {
    if (!isa<AccumulateOp, WriteOp>(op))
      return;
    FlatSymbolRefAttr name = memoryOf(op);
    Role role = symbols.lookup<MemoryOp>(name.getAttr()).getRole();
    // What is added to several times is made by the last.
    if (role == Role::Gradient && gradients.contains(name))
      gradients.remove(name);
    if (role == Role::Gradient)
      gradients.insert(name);
    if (role == Role::State)
      states.insert(name);
  };
  for (auto op : program.getOps<StageOp>())
    if (static_cast<int>(op.getId()) == stage)
      op.walk(touch);
  SmallVector<mlir::Attribute> names(gradients.begin(), gradients.end());
  names.append(states.begin(), states.end());
  return Builder(program.getContext()).getArrayAttr(names);
}

static void writeSteps(Region &region, const std::vector<Step> &steps, ProgramOp program,
                       const TaggedEdges &edges) {
  OpBuilder builder(program.getContext());
  builder.setInsertionPointToEnd(&region.emplaceBlock());
  Location loc = program.getLoc();
  for (const Step &step : steps) {
    switch (step.kind) {
    case StepKind::run:
      builder.create<RunOp>(loc, step.task.stage, toPhase(step.task.phase), step.task.microbatch);
      break;
    case StepKind::allReduce:
      builder.create<AllReduceOp>(loc, findTotals(program), IntegerAttr(), IntegerAttr());
      break;
    case StepKind::reduceGradients:
      builder.create<AllReduceOp>(loc, findReplicated(program, step.task.stage),
                                  builder.getI64IntegerAttr(step.task.stage),
                                  builder.getI64IntegerAttr(step.task.microbatch));
      break;
    case StepKind::send:
      builder.create<SendOp>(loc, edges.edges[step.edge].tensor, step.task.stage,
                             step.task.microbatch, step.peer, edges.tags[step.edge]);
      break;
    case StepKind::receive:
      builder.create<RecvOp>(loc, edges.inboxes[step.edge], step.task.stage, step.task.microbatch,
                             step.peer, edges.tags[step.edge]);
      break;
    }
  }
}

void writeSchedule(ModuleOp module, const Schedule &schedule, Rows rows, const TaggedEdges &edges) {
  for (auto program : module.getOps<ProgramOp>()) {
    while (ScheduleOp old = findScheduleOp(program, rows))
      old.erase();
    bool replicated = program.getRanks().size() > 1;
    VersionAttr weights;
    for (auto [rule, version] : weightRules)
      if (schedule.weightRule == rule)
        weights = VersionAttr::get(program.getContext(), version);
    for (int64_t rank : program.getRanks()) {
      OpBuilder builder = OpBuilder::atBlockEnd(&program.getBody().front());
      auto op = builder.create<ScheduleOp>(
          program.getLoc(), schedule.name, schedule.asynchronous, schedule.microbatches,
          schedule.period, rows == Rows::evaluation,
          replicated ? builder.getI64IntegerAttr(rank) : IntegerAttr(), weights);
      const RankRows &own = schedule.ranks[rank];
      writeSteps(op.getWarmUp(), own.warmUp, program, edges);
      writeSteps(op.getRepeat(), own.repeat, program, edges);
      writeSteps(op.getDrain(), own.drain, program, edges);
    }
  }
}

} // namespace pdc
