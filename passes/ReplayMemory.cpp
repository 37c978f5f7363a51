#include "passes/ReplayMemory.h"

#include "compiler/Error.h"
#include "compiler/ir/Partition.h"
#include "compiler/schedule/Replicas.h"
#include "compiler/schedule/Slots.h"
#include "compiler/schedule/Versions.h"
#include "passes/ReplayedArena.h"
#include "passes/ScheduleRows.h"
#include "passes/Values.h"

#include <map>
#include <set>

using namespace mlir;
using namespace pdc::ir;

namespace pdc {
namespace {

struct StageState {
  StageOp op;
  int64_t updates = 0;                           ///< of the rank that is replayed
  std::vector<int64_t> owners;                   ///< microbatch in each slot, -1: free
  std::map<int64_t, int64_t> stashed;            ///< ring copy that a microbatch reads
  std::map<int64_t, std::vector<Located>> sends; ///< by copy of the slots: on their way
  std::set<Phase> summing;                       ///< phases that have run since the last update
};

class Replay : ReplayedArena {
public:
  Replay(ProgramOp program, const ReadRows &training, const ReadRows &evaluation)
      : ReplayedArena(program), training(training), evaluation(evaluation) {
    for (auto op : program.getOps<StageOp>())
      stages[op.getId()] = {.op = op};
  }

  void run() {
    fillPersistent();
    for (auto &[id, stage] : stages)
      runTask(stage, ir::Phase::Prepare, {});
    replayTraining();
    replayEvaluation();
    checkPersistent();
    replayTraining();
    checkPersistent();
  }

private:
  static bool isMicrobatchInput(MemoryOp memory) {
    return memory.getRole() == Role::Input && memory.getRate() == Rate::Microbatch;
  }

  static bool isKept(MemoryOp memory) {
    return memory.getHome()->getRegion() == "fixed" || memory.getHome()->getRegion() == "versions";
  }

  void fillPersistent() {
    for (auto memory : program.getOps<MemoryOp>())
      if (isKept(memory))
        write(memory, address(*memory.getHome(), 0),
              bytes.newContent("'" + memory.getSymName().str() + "' as loaded"));
  }

  void checkPersistent() {
    for (auto memory : program.getOps<MemoryOp>())
      if (isKept(memory)) {
        int64_t version = copyOf(stages.begin()->second.updates);
        int64_t at = address(*memory.getHome(), Copies{}, version);
        expect({at, memory.getHome()->getBytes(), contentOf(memory, at)},
               "memory '" + memory.getSymName().str() + "' after the drain");
      }
  }

  void fillInputs(const StageState &stage, const Copies &copies, const std::string &which) {
    std::string slots = "slots." + std::to_string(StageOp(stage.op).getId());
    for (auto memory : program.getOps<MemoryOp>())
      if (isMicrobatchInput(memory) && memory.getHome()->getRegion() == slots)
        write(memory, address(*memory.getHome(), copies, 0),
              bytes.newContent("'" + memory.getSymName().str() + "' of " + which));
  }

  // Rows.
  void replayTraining() {
    const auto &[edges, schedule] = training;
    for (auto &[id, stage] : stages)
      stage.owners.assign(schedule.slots[id], -1);
    int64_t iterations = 3 * static_cast<int64_t>(stages.begin()->second.owners.size()) + 6;
    std::vector<int64_t> rounds = {schedule.asynchronous ? iterations : 0};
    UnrolledRows rows = unroll(schedule, rounds);
    // Replicas have one arena each, all alike: one after the other may run on this one.
    for (int64_t rank : program.getRanks()) {
      for (auto &[id, stage] : stages)
        stage.updates = 0;
      for (const Action &action : rows.ranks[rank])
        for (const Step &step : action.steps)
          if (step.kind != StepKind::allReduce && step.kind != StepKind::reduceGradients)
            replayStep(schedule, step, edges);
      for (auto &[id, stage] : stages)
        for (int64_t slot = 0; slot < schedule.slots[id]; ++slot)
          finishSends(stage, slot);
    }
  }

  void replayStep(const Schedule &schedule, const Step &step, const TaggedEdges &edges) {
    StageState &stage = stages[step.task.stage];
    if (step.kind == StepKind::run && step.task.phase == Phase::update)
      return update(stage, schedule);
    int64_t microbatch = step.task.microbatch;
    Copies copies = takeSlot(stage, schedule, microbatch);
    if (step.kind != StepKind::run)
      return transfer(stage, step, edges, copies);
    bool isFirst = stage.summing.insert(step.task.phase).second;
    int64_t turn = microbatch % microbatchesPerUpdate(schedule, step.task.stage);
    copies.startsSums = schedule.asynchronous ? turn < schedule.replicas(step.task.stage) : isFirst;
    if (step.task.phase == Phase::forward)
      stage.stashed[microbatch] =
          copyOf(schedule.weightRule == WeightRule::stashed
                     ? stage.updates
                     : versionRead(schedule, step.task.stage, microbatch, 0));
    copies.stashed = stage.stashed[microbatch];
    runTask(stage, toPhase(step.task.phase), copies);
    if (step.task.phase == Phase::backward || step.task.phase == Phase::backwardWeight)
      stage.stashed.erase(microbatch);
    for (const Edge &edge : edges.edges)
      if (handsOver(schedule, step.task, edge)) {
        StageState &reader = stages[edge.toStage];
        handOver(edges, edge, copies, takeSlot(reader, schedule, microbatch));
      }
  }

  /// What stays on the rank is copied.
  void handOver(const TaggedEdges &edges, const Edge &edge, const Copies &from, const Copies &to) {
    MemoryOp outbox = memory(edge.tensor), inbox = memory(edges.inboxes[edge.id]);
    int64_t at = address(*outbox.getHome(), from, 0);
    std::string which = "'" + edge.tensor + "', handed from stage to stage";
    expect({at, outbox.getHome()->getBytes(), contentOf(outbox, at)}, which);
    write(inbox, address(*inbox.getHome(), to, 0), bytes.newContent(which));
  }

  /// The ring copy of a version.
  int64_t copyOf(int64_t version) {
    auto ring = regions.find("versions");
    return ring == regions.end() ? 0 : version % ring->second.copies;
  }

  Copies takeSlot(StageState &stage, const Schedule &schedule, int64_t microbatch) {
    int64_t slot = slotOf(schedule, static_cast<int>(stage.op.getId()), microbatch);
    int64_t newest = copyOf(stage.updates);
    Copies copies{.slot = slot, .latest = newest, .stashed = newest, .next = newest};
    if (stage.owners[slot] != microbatch) {
      finishSends(stage, slot);
      stage.owners[slot] = microbatch;
      fillInputs(stage, copies, "microbatch " + std::to_string(microbatch));
    }
    return copies;
  }

  void transfer(StageState &stage, const Step &step, const TaggedEdges &edges,
                const Copies &copies) {
    bool sends = step.kind == StepKind::send;
    const std::string &name = sends ? edges.edges[step.edge].tensor : edges.inboxes[step.edge];
    MemoryOp box = memory(name);
    int64_t at = address(*box.getHome(), copies, 0);
    std::string which = "'" + name + "' of microbatch " + std::to_string(step.task.microbatch);
    if (!sends)
      return write(box, at, bytes.newContent("received " + which));
    Located sent{at, box.getHome()->getBytes(), contentOf(box, at)};
    expect(sent, "the send of " + which);
    stage.sends[copies.slot].push_back(sent);
  }

  /// A send may take until its slot is taken anew.
  void finishSends(StageState &stage, int64_t slot) {
    for (const Located &sent : stage.sends[slot])
      expect(sent, "a send that is still on its way");
    stage.sends[slot].clear();
  }

  void update(StageState &stage, const Schedule &schedule) {
    auto ring = regions.find("versions");
    int64_t next = copyOf(stage.updates + 1);
    for (auto [microbatch, version] : stage.stashed)
      if (schedule.asynchronous && ring != regions.end() && version == next)
        refuse("the update overwrites the version that microbatch " + std::to_string(microbatch) +
               " still reads");
    runTask(stage, ir::Phase::Update, {.latest = copyOf(stage.updates), .next = next});
    ++stage.updates;
    runTask(stage, ir::Phase::Prepare, {.latest = next, .next = next});
    stage.summing.clear();
  }

  void replayEvaluation() {
    const auto &[edges, schedule] = evaluation;
    int64_t count = regions["evaluation"].copies;
    for (int64_t microbatch = 0; microbatch < 2 * count; ++microbatch)
      for (auto &[id, stage] : stages) {
        Copies copies{.slot = microbatch % count,
                      .latest = copyOf(stage.updates),
                      .evaluation = true,
                      .startsSums = microbatch == 0};
        finishSends(stage, copies.slot);
        fillInputs(stage, copies, "evaluation");
        for (Step step : schedule.ranks[program.getRanks()[0]].repeat) {
          bool isLaterTurn = step.task.microbatch >= schedule.replicas(step.task.stage);
          if (isLaterTurn || step.task.stage != id)
            continue;
          if (step.kind != StepKind::run) {
            transfer(stage, step, edges, copies);
            continue;
          }
          runTask(stage, ir::Phase::Evaluate, copies);
          for (const Edge &edge : edges.edges)
            if (handsOver(schedule, step.task, edge)) {
              finishSends(stages[edge.toStage], copies.slot);
              handOver(edges, edge, copies, copies);
            }
        }
      }
  }

  // Tasks.

  void runTask(StageState &stage, ir::Phase phase, const Copies &copies) {
    for (auto task : stage.op.getOps<TaskOp>())
      if (task.getPhase() == phase) {
        values.clear();
        for (Operation &op : task.getOps())
          runOperation(&op, copies);
      }
  }

  void runOperation(Operation *op, const Copies &copies) {
    if (isRead(op))
      return read(op, copies);
    if (storedValue(op))
      return store(op, copies);
    auto unit = dyn_cast<UnitOp>(op);
    if (!unit)
      return;
    if (std::optional<Partition> partition = placedPartitionOf(unit))
      return lookAt(unit, *partition, copies);
    if (!isView(unit))
      return runUnit(unit, copies);
    Located viewed = values[unit.getOperand(0)];
    // A view of a weight is of the version that was read, which need not be the newest.
    Located result = locate(unit, 0, copies, viewed.version);
    if (viewed.address != result.address)
      refuse("view '" + unit.getName().str() + "' would have to move bytes");
    viewed.bytes = result.bytes;
    values[unit.getResult(0)] = viewed;
  }

  /// Parts of the whole, or the whole of parts, which lie where they are to.
  void lookAt(UnitOp unit, const Partition &partition, const Copies &copies) {
    auto expectAt = [&](const Located &found, int64_t address) {
      if (found.address != address)
        refuse("unit '" + unit.getName().str() + "' would have to move bytes");
    };
    if (!partition.joins) {
      const Located whole = values[partition.whole];
      for (auto [number, part] : llvm::enumerate(partition.parts)) {
        const int64_t behind = partition.offsets[number];
        Located located = locate(unit, number, copies, whole.version);
        expectAt(located, whole.address + behind);
        located.content = bytes.partOf(whole.content, behind, located.bytes);
        values[part] = located;
      }
      return;
    }
    Located whole = locate(unit, 0, copies, copies.next);
    std::vector<ShadowBytes::Part> parts;
    for (auto [part, behind] : llvm::zip_equal(partition.parts, partition.offsets)) {
      const Located &located = values[part];
      expect(located, "unit '" + unit.getName().str() + "', reading '" + tensorName(part) + "',");
      expectAt(located, whole.address + behind);
      parts.push_back({behind, located.bytes, located.content});
    }
    whole.content = bytes.joined("'" + tensorName(partition.whole) + "'", std::move(parts));
    values[partition.whole] = whole;
  }

  void read(Operation *op, const Copies &copies) {
    MemoryOp from = memory(memoryOf(op).getValue());
    auto version = dyn_cast<WeightVersionOp>(op);
    bool stashed = version && version.getVersion() != Version::Latest;
    int64_t copy = stashed ? copies.stashed : copies.latest;
    int64_t at = address(*from.getHome(), copies, copy);
    values[op->getResult(0)] = {at, from.getHome()->getBytes(), contentOf(from, at), copy};
  }

  Located locate(UnitOp unit, size_t result, const Copies &copies, int64_t version) {
    auto home = cast<HomeAttr>((*unit.getHomes())[result]);
    return {address(home, copies, version), home.getBytes(), 0, version};
  }

  void runUnit(UnitOp unit, const Copies &copies) {
    std::string who = "unit '" + unit.getName().str() + "'";
    // 1. The library's workspace comes first: it must not touch what the unit reads or makes.
    Located workspace{regions["scratch"].offset,
                      unit.getKernel() ? unit.getKernel()->getWorkspace() : 0, 0};
    bytes.write(workspace.address, workspace.bytes, bytes.newContent("the workspace of " + who));
    // 2. What it reads.
    for (Value operand : unit.getOperands())
      if (auto found = values.find(operand); found != values.end())
        expect(found->second, who + ", reading '" + tensorName(operand) + "',");
    checkPriorSum(unit, copies);
    // 3. What it makes.
    for (auto [number, result] : llvm::enumerate(unit.getResults())) {
      Located made = locate(unit, number, copies, copies.next);
      if (meets(made, workspace))
        refuse(who + " has a result in its workspace");
      checkOverlaps(unit, number, made);
      made.content = bytes.newContent("'" + tensorName(result) + "'");
      bytes.write(made.address, made.bytes, made.content);
      values[result] = made;
    }
    for (Value result : unit.getResults())
      expect(values[result], who + ", having made '" + tensorName(result) + "',");
  }

  /// A kernel that adds finds the sum of the microbatches before.
  void checkPriorSum(UnitOp unit, const Copies &copies) {
    for (Operation *user : unit->getUsers())
      if (auto sum = dyn_cast<AccumulateOp>(user);
          sum && sum.getFused() && (sum.getContinues() || !copies.startsSums)) {
        MemoryOp into = memory(sum.getMemory());
        int64_t at = address(*into.getHome(), copies, copies.latest);
        expect({at, into.getHome()->getBytes(), contentOf(into, at)},
               "the sum '" + sum.getMemory().str() + "'");
      }
  }

  static bool meets(const Located &a, const Located &b) {
    return a.address < b.address + b.bytes && b.address < a.address + a.bytes;
  }

  void checkOverlaps(UnitOp unit, size_t result, const Located &made) {
    ArrayRef<int64_t> pairs = unit.getInPlace().value_or(ArrayRef<int64_t>());
    for (auto [number, operand] : llvm::enumerate(unit.getOperands())) {
      auto found = values.find(operand);
      if (found == values.end() || !meets(found->second, made))
        continue;
      bool declared = false;
      for (size_t i = 0; i + 1 < pairs.size(); i += 2)
        declared |= pairs[i + 1] == static_cast<int64_t>(result) &&
                    values[unit.getOperand(pairs[i])].address == found->second.address;
      if (!declared || found->second.address != made.address)
        refuse("unit '" + unit.getName().str() + "' writes result " + std::to_string(result) +
               " over operand " + std::to_string(number) + " without being in place");
    }
  }

  void store(Operation *op, const Copies &copies) {
    MemoryOp into = memory(memoryOf(op).getValue());
    std::string who = "memory '" + into.getSymName().str() + "'";
    Located value = values[storedValue(op)];
    expect(value, who + ", being written,");
    int64_t at = address(*into.getHome(), copies, copies.next);
    auto sum = dyn_cast<AccumulateOp>(op);
    if (!sum || sum.getFused()) {
      if (value.address != at)
        refuse(who + " would have to be copied");
      contents[{into, at}] = value.content;
      return;
    }
    if (sum.getContinues() || !copies.startsSums)
      expect({at, into.getHome()->getBytes(), contentOf(into, at)}, "the sum " + who);
    write(into, at, bytes.newContent("the sum " + who));
  }

  const ReadRows &training, &evaluation;
  std::map<int, StageState> stages;
  llvm::DenseMap<Value, Located> values;
};

} // namespace

void replayMemory(ProgramOp program, const ReadRows &training, const ReadRows &evaluation) {
  Replay(program, training, evaluation).run();
}

} // namespace pdc
