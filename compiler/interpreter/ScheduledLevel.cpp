#include "compiler/interpreter/Levels.h"

#include "compiler/Error.h"

#include "llvm/ADT/STLExtras.h"

namespace pdc::interpreter {

using ir::Phase;

namespace {

/// One row of a rank with its microbatch made global.
struct Row {
  mlir::Operation *op = nullptr;
  int64_t microbatch = 0;
  bool done = false; ///< transfers: both sides have met
};

bool isTransfer(const Row &row) { return llvm::isa<ir::SendOp, ir::RecvOp>(row.op); }

/// A rank on its way through its rows.
struct Rank {
  Machine *machine = nullptr;
  std::map<int64_t, PlacedStage> stages;
  std::vector<Row> rows;
  size_t next = 0;

  bool finished() const { return next == rows.size(); }
  /// Neighbouring transfers progress together.
  llvm::MutableArrayRef<Row> group() {
    size_t end = next;
    while (end < rows.size() && isTransfer(rows[end]))
      ++end;
    return llvm::MutableArrayRef<Row>(rows).slice(next, end - next);
  }
};

class Execution {
public:
  explicit Execution(Machines &machines, mlir::ModuleOp module)
      : machines(machines), stages(placeStages(machines, module)) {
    for (const auto &machine : machines.machines)
      ranks[machine->getRank()].machine = machine.get();
    for (const PlacedStage &stage : stages)
      ranks[stage.machine->getRank()].stages.emplace(stage.id, stage);
  }

  void prepare() {
    for (const PlacedStage &stage : stages)
      stage.run(Phase::Prepare, 0);
  }

  /// Appends the rows of one region; those of microbatches from `end` on are left out.
  void append(Rank &rank, mlir::Region &region, int64_t base, int64_t end, Phase evaluation) {
    for (mlir::Operation &op : region.getOps()) {
      Row row{&op, base};
      auto advance = [&](auto transfer) { row.microbatch += transfer.getMicrobatch(); };
      if (auto run = llvm::dyn_cast<ir::RunOp>(op))
        advance(run);
      else if (auto send = llvm::dyn_cast<ir::SendOp>(op))
        advance(send);
      else if (auto receive = llvm::dyn_cast<ir::RecvOp>(op))
        advance(receive);
      if (row.microbatch < end)
        rank.rows.push_back(row);
    }
    phaseOfTransfers = evaluation;
  }

  /// Runs all ranks to the end of their rows.
  void play() {
    while (llvm::any_of(ranks, [](auto &entry) { return !entry.second.finished(); })) {
      bool progress = false;
      for (auto &[number, rank] : ranks)
        progress |= advanceRank(number, rank);
      progress |= reduceTogether();
      if (!progress)
        throw Error("the ranks wait for each other: " + describeStuck());
    }
    for (auto &[number, rank] : ranks) {
      rank.rows.clear();
      rank.next = 0;
    }
  }

  std::map<int64_t, Rank> &all() { return ranks; }

private:
  /// Runs rows until one has to wait.
  bool advanceRank(int64_t number, Rank &rank) {
    bool progress = false;
    while (!rank.finished()) {
      Row &row = rank.rows[rank.next];
      if (auto run = llvm::dyn_cast<ir::RunOp>(row.op)) {
        runTask(rank, run, row);
        ++rank.next;
      } else if (isTransfer(row)) {
        progress |= meetPeers(number, rank);
        llvm::MutableArrayRef<Row> group = rank.group();
        if (!llvm::all_of(group, [](const Row &transfer) { return transfer.done; }))
          return progress;
        rank.next += group.size();
      } else {
        return progress;
      }
      progress = true;
    }
    return progress;
  }

  void runTask(Rank &rank, ir::RunOp run, const Row &row) {
    auto stage = rank.stages.find(run.getStage());
    if (stage == rank.stages.end())
      throw Error(rank.machine->getName() + ": a row runs stage " + std::to_string(run.getStage()) +
                  ", which is not in this program");
    stage->second.run(run.getPhase(), row.microbatch);
    handOver(*rank.machine, *rank.machine, stage->second,
             {stage->first, run.getPhase(), row.microbatch});
  }

  /// Completes the transfers of a group whose peer has reached its side.
  bool meetPeers(int64_t number, Rank &rank) {
    bool progress = false;
    for (Row &row : rank.group()) {
      auto send = llvm::dyn_cast<ir::SendOp>(row.op);
      if (row.done || !send)
        continue;
      auto peer = ranks.find(send.getPeer());
      if (peer == ranks.end())
        throw Error(rank.machine->getName() + ": a row sends to rank " +
                    std::to_string(send.getPeer()) + ", which does not exist");
      for (Row &other : peer->second.group())
        if (auto receive = llvm::dyn_cast<ir::RecvOp>(other.op);
            receive && !other.done && matches(send, row, number, receive, other)) {
          Tensor value = rank.machine->take(
              send.getMemory(), {int64_t(send.getStage()), phaseOfTransfers, row.microbatch});
          peer->second.machine->put(
              receive.getMemory(), std::move(value),
              {int64_t(receive.getStage()), phaseOfTransfers, other.microbatch});
          row.done = other.done = progress = true;
          break;
        }
    }
    return progress;
  }

  static bool matches(ir::SendOp send, const Row &from, int64_t sender, ir::RecvOp receive,
                      const Row &to) {
    return receive.getPeer() == static_cast<uint64_t>(sender) &&
           receive.getTag() == send.getTag() && from.microbatch == to.microbatch;
  }

  /// When all ranks that still run stand at a sum, it happens.
  bool reduceTogether() {
    std::vector<Rank *> waiting;
    for (auto &[number, rank] : ranks) {
      if (rank.finished())
        continue;
      if (!llvm::isa<ir::AllReduceOp>(rank.rows[rank.next].op))
        return false;
      waiting.push_back(&rank);
    }
    std::set<std::string> names;
    for (Rank *rank : waiting)
      for (mlir::Attribute name :
           llvm::cast<ir::AllReduceOp>(rank->rows[rank->next++].op).getMemories())
        names.insert(nameOf(name));
    for (const std::string &name : names)
      machines.reduce(name);
    return !waiting.empty();
  }

  static std::string nameOf(mlir::Attribute attribute) {
    if (auto symbol = llvm::dyn_cast<mlir::FlatSymbolRefAttr>(attribute))
      return symbol.getValue().str();
    if (auto text = llvm::dyn_cast<mlir::StringAttr>(attribute))
      return text.str();
    throw Error("pdc.all_reduce names something else than memories");
  }

  std::string describeStuck() {
    std::string text;
    for (auto &[number, rank] : ranks) {
      if (rank.finished())
        continue;
      const Row &row = rank.rows[rank.next];
      std::string row_text;
      llvm::raw_string_ostream(row_text) << *row.op;
      text += (text.empty() ? "" : "; ") + ("rank " + std::to_string(number)) + " at '" + row_text +
              "' of microbatch " + std::to_string(row.microbatch);
    }
    return text;
  }

  Machines &machines;
  std::vector<PlacedStage> stages;
  std::map<int64_t, Rank> ranks;
  Phase phaseOfTransfers = Phase::Forward;
};

ir::ScheduleOp findSchedule(ir::ProgramOp program, bool evaluation) {
  for (auto schedule : program.getBody().getOps<ir::ScheduleOp>())
    if (schedule.getEvaluation() == evaluation)
      return schedule;
  return {};
}

/// Microbatches that warm-up and drain bring without any repetition.
int64_t outsideRepeat(ir::ScheduleOp schedule, int64_t stage) {
  int64_t count = 0;
  for (mlir::Region *region : {&schedule.getWarmUp(), &schedule.getDrain()})
    for (auto run : region->getOps<ir::RunOp>())
      count += run.getPhase() == Phase::Forward && int64_t(run.getStage()) == stage;
  return count;
}

} // namespace

static void trainSynchronously(Execution &execution, Machines &machines,
                               const std::map<int64_t, ir::ScheduleOp> &schedules) {
  for (int64_t step = 0; step < machines.input.updates; ++step) {
    int64_t base = step * machines.microbatches;
    for (auto [rank, schedule] : schedules)
      execution.append(execution.all().at(rank), schedule.getWarmUp(), base, INT64_MAX,
                       Phase::Forward);
    execution.play();
  }
}

/// The microbatches of so many updates; rows of later ones are left out.
static void trainAsynchronously(Execution &execution, Machines &machines,
                                const std::map<int64_t, ir::ScheduleOp> &schedules) {
  int64_t microbatches = machines.input.updates * machines.microbatches;
  for (auto [number, schedule] : schedules) {
    Rank &rank = execution.all().at(number);
    int64_t period = std::max<int64_t>(1, schedule.getPeriod());
    int64_t outside = rank.stages.empty() ? 0 : outsideRepeat(schedule, rank.stages.begin()->first);
    int64_t iterations = std::max<int64_t>(0, (microbatches - outside + period - 1) / period);
    auto append = [&](mlir::Region &region, int64_t base) {
      execution.append(rank, region, base, microbatches, Phase::Forward);
    };
    append(schedule.getWarmUp(), 0);
    for (int64_t i = 0; i < iterations; ++i)
      append(schedule.getRepeat(), i * period);
    append(schedule.getDrain(), iterations * period);
  }
  execution.play();
}

void runScheduled(Machines &machines, mlir::ModuleOp module) {
  Execution execution(machines, module);
  std::map<int64_t, ir::ScheduleOp> training, evaluation;
  for (auto program : module.getOps<ir::ProgramOp>()) {
    if (ir::ScheduleOp schedule = findSchedule(program, false))
      training.emplace(program.getRanks()[0], schedule);
    if (ir::ScheduleOp schedule = findSchedule(program, true))
      evaluation.emplace(program.getRanks()[0], schedule);
  }
  execution.prepare();
  if (machines.asynchronous)
    trainAsynchronously(execution, machines, training);
  else
    trainSynchronously(execution, machines, training);
  for (int64_t m = 0; m < machines.input.evaluations && !evaluation.empty(); ++m) {
    for (auto [rank, schedule] : evaluation)
      execution.append(execution.all().at(rank), schedule.getRepeat(), m, INT64_MAX,
                       Phase::Evaluate);
    execution.play();
  }
}

} // namespace pdc::interpreter
