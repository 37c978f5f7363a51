#include "compiler/Error.h"
#include "compiler/schedule/Grid.h"
#include "compiler/schedule/Proof.h"
#include "compiler/schedule/Slots.h"
#include "compiler/schedule/Strict.h"
#include "compiler/schedule/Text.h"

#include <algorithm>
#include <set>
#include <utility>

namespace pdc {

namespace {

std::string text(int64_t number) { return std::to_string(number); }

/// What is known of the microbatch that occupies a slot.
struct Occupant {
  int64_t microbatch = -1;
  std::set<Phase> done;
  std::set<int> received, produced, sent; ///< edges
  int64_t version = 0;                    ///< that the forward pass read
};

/// What one kind of backward task has added up.
struct Sums {
  int64_t last = -1;
  std::vector<int64_t> microbatches; ///< since the last update
};

struct StageState {
  std::vector<Occupant> slots;
  int64_t version = 0; ///< updates so far
  /// By the phase that adds to them: input gradients have sums too (the scale of a normalisation).
  std::map<Phase, Sums> sums;
  bool summedOverRanks = false;
};

class Replay {
public:
  Replay(const Schedule &schedule, std::span<const Edge> edges, std::vector<int64_t> rounds);
  void run();

private:
  [[noreturn]] void refuse(int rank, const Step &step, const std::string &text) const;
  void checkTables() const;
  void begin(int rank, const Action &action);
  void end(int rank, const Action &action);
  void send(int rank, const Step &step);
  void receive(int rank, const Step &step, const Action &group);
  void compute(int rank, const Step &step);
  void findInputs(int rank, const Step &step, const Occupant &self) const;
  void forward(int rank, const Step &step, Occupant &self);
  void backward(int rank, const Step &step, const Occupant &self);
  void addGradient(int rank, const Step &step);
  void update(int rank, const Step &step);
  void checkEnd() const;

  Occupant &take(int rank, const Step &step);
  Occupant &find(int rank, const Step &step);
  bool hasEnded(int stage, const Occupant &occupant) const;
  bool isLocal(const Edge &edge) const { return schedule.shareRanks(edge.fromStage, edge.toStage); }
  int64_t dueVersion(const Task &task) const;

  const Schedule &schedule;
  std::span<const Edge> edges;
  std::vector<int64_t> rounds;
  UnrolledRows rows;
  std::vector<int64_t> roundStarts;
  std::vector<bool> split;
  std::vector<StageState> stages;
  std::map<std::pair<int, int>, std::vector<Step>> messages; ///< on their way, by ranks
};

Replay::Replay(const Schedule &schedule, std::span<const Edge> edges, std::vector<int64_t> counts)
    : schedule(schedule), edges(edges), rounds(std::move(counts)), rows(unroll(schedule, rounds)),
      split(findSplitStages(schedule)), stages(schedule.stages()) {
  checkTables();
  int64_t start = 0;
  for (int64_t round : rounds) {
    roundStarts.push_back(start);
    start += microbatchesOfRound(schedule, round);
  }
  for (size_t stage = 0; stage < stages.size(); ++stage)
    stages[stage].slots.resize(schedule.slots[stage]);
}

void Replay::checkTables() const {
  if (schedule.slots.size() != stages.size() || schedule.slotTable.size() != stages.size() ||
      schedule.versions.size() != stages.size())
    throw Error("schedule " + schedule.name + ": expected slots and versions for each of " +
                text(stages.size()) + " stages");
  for (size_t stage = 0; stage < stages.size(); ++stage) {
    const std::vector<int> &table = schedule.slotTable[stage];
    bool fits =
        !table.empty() && schedule.versions[stage] > 0 && std::ranges::all_of(table, [&](int slot) {
          return slot >= 0 && slot < schedule.slots[stage];
        });
    if (!fits)
      throw Error("schedule " + schedule.name + ": the slot table of stage " + text(stage) +
                  " does not fit its " + text(schedule.slots[stage]) + " slots");
  }
}

void Replay::refuse(int rank, const Step &step, const std::string &text) const {
  std::optional<Mark> mark;
  if (step.kind != StepKind::allReduce)
    mark = Mark{rank, step.task};
  int64_t drawn = schedule.asynchronous ? rounds[0] : static_cast<int64_t>(rounds.size());
  throw Error("schedule " + schedule.name + ": rank " + std::to_string(rank) + " at " +
              toString(step) + ": " + text + "\n" + drawGrid(schedule, edges, drawn, mark));
}

bool Replay::hasEnded(int stage, const Occupant &occupant) const {
  if (occupant.microbatch < 0)
    return true;
  auto did = [&](Phase phase) { return occupant.done.contains(phase); };
  bool ran = did(Phase::evaluate) || did(Phase::backward) ||
             (did(Phase::backwardInput) && did(Phase::backwardWeight));
  return ran && std::ranges::all_of(edges, [&](const Edge &edge) {
           return edge.fromStage != stage || isLocal(edge) || occupant.sent.contains(edge.id) ||
                  !occupant.produced.contains(edge.id);
         });
}

Occupant &Replay::take(int rank, const Step &step) {
  int stage = step.task.stage, slot = slotOf(schedule, stage, step.task.microbatch);
  Occupant &occupant = stages[stage].slots[slot];
  if (occupant.microbatch == step.task.microbatch)
    return occupant;
  if (!hasEnded(stage, occupant))
    refuse(rank, step,
           "slot " + text(slot) + " of stage " + text(stage) + " still holds microbatch " +
               text(occupant.microbatch));
  occupant = {};
  occupant.microbatch = step.task.microbatch;
  return occupant;
}

Occupant &Replay::find(int rank, const Step &step) {
  int stage = step.task.stage, slot = slotOf(schedule, stage, step.task.microbatch);
  Occupant &occupant = stages[stage].slots[slot];
  if (occupant.microbatch != step.task.microbatch)
    refuse(rank, step,
           "slot " + text(slot) + " of stage " + text(stage) + " does not hold microbatch " +
               text(step.task.microbatch));
  return occupant;
}

void Replay::send(int rank, const Step &step) {
  Occupant &self = find(rank, step);
  if (!self.produced.contains(step.edge))
    refuse(rank, step, "'" + edges[step.edge].tensor + "' is not made yet");
  if (!self.sent.insert(step.edge).second)
    refuse(rank, step, "'" + edges[step.edge].tensor + "' is sent twice");
  messages[{rank, step.peer}].push_back(step);
}

void Replay::receive(int rank, const Step &step, const Action &group) {
  for (const Step &other : group.steps)
    if (other.kind == StepKind::send && other.task.stage == step.task.stage &&
        other.task.microbatch != step.task.microbatch &&
        slotOf(schedule, step.task.stage, other.task.microbatch) ==
            slotOf(schedule, step.task.stage, step.task.microbatch))
      refuse(rank, step, "its slot is being sent from by " + toString(other));
  Occupant &self = take(rank, step);
  std::vector<Step> &line = messages[{step.peer, rank}];
  Step message = line.front();
  line.erase(line.begin());
  if (message.edge != step.edge || message.task.microbatch != step.task.microbatch)
    refuse(rank, step, "rank " + text(step.peer) + " has sent " + toString(message) + " instead");
  if (!self.received.insert(step.edge).second)
    refuse(rank, step, "'" + edges[step.edge].tensor + "' is received twice");
}

void Replay::findInputs(int rank, const Step &step, const Occupant &self) const {
  for (const Edge &edge : edges) {
    if (!consumes(step.task, edge))
      continue;
    bool there = self.received.contains(edge.id);
    if (isLocal(edge)) {
      const Occupant &producer =
          stages[edge.fromStage].slots[slotOf(schedule, edge.fromStage, step.task.microbatch)];
      there = producer.microbatch == step.task.microbatch && producer.produced.contains(edge.id);
    }
    if (!there)
      refuse(rank, step, "its input '" + edge.tensor + "' is not there");
  }
}

int64_t Replay::dueVersion(const Task &task) const {
  if (!schedule.asynchronous)
    return task.microbatch / schedule.microbatches;
  int64_t drained = *std::prev(std::ranges::upper_bound(roundStarts, task.microbatch));
  int64_t count = static_cast<int64_t>(stages.size());
  return std::max(drained, task.microbatch - count + 1 + task.stage);
}

void Replay::forward(int rank, const Step &step, Occupant &self) {
  const StageState &stage = stages[step.task.stage];
  self.version = stage.version;
  if (stage.version != dueVersion(step.task))
    refuse(rank, step,
           "reads weight version " + text(stage.version) + ", the update rule says version " +
               text(dueVersion(step.task)));
}

void Replay::backward(int rank, const Step &step, const Occupant &self) {
  StageState &stage = stages[step.task.stage];
  if (!self.done.contains(Phase::forward))
    refuse(rank, step, "its forward pass has not run");
  if (step.task.phase == Phase::backwardWeight && !self.done.contains(Phase::backwardInput))
    refuse(rank, step, "its input gradient has not run");
  if (stage.version - self.version >= schedule.versions[step.task.stage])
    refuse(rank, step,
           "weight version " + text(self.version) +
               ", which its forward pass read, is overwritten; " +
               text(schedule.versions[step.task.stage]) + " are kept and " + text(stage.version) +
               " is the latest");
  addGradient(rank, step);
}

void Replay::addGradient(int rank, const Step &step) {
  StageState &stage = stages[step.task.stage];
  Sums &sums = stage.sums[step.task.phase];
  if (step.task.microbatch <= sums.last)
    refuse(rank, step,
           "gradients are summed in ascending order of microbatches, microbatch " +
               text(sums.last) + " came before");
  sums.last = step.task.microbatch;
  sums.microbatches.push_back(step.task.microbatch);
  stage.summedOverRanks = false;
}

void Replay::update(int rank, const Step &step) {
  StageState &stage = stages[step.task.stage];
  int64_t last = step.task.microbatch;
  std::vector<int64_t> due;
  for (int64_t i = schedule.microbatches; i > 0; --i)
    due.push_back(last - i + 1);
  for (Phase phase : split[step.task.stage]
                         ? std::vector{Phase::backwardInput, Phase::backwardWeight}
                         : std::vector{Phase::backward}) {
    std::vector<int64_t> found = std::exchange(stage.sums[phase].microbatches, {});
    if (found != due || stage.version * schedule.microbatches != due[0])
      refuse(rank, step,
             "the update needs the gradients of microbatches " + text(due[0]) + " to " +
                 text(last) + ", found " + text(found.size()) + " gradients" +
                 (found.empty() ? "" : " up to microbatch " + text(found.back())));
  }
  if (!schedule.asynchronous && !stage.summedOverRanks)
    refuse(rank, step, "the sum over all ranks has not come");
  ++stage.version;
}

void Replay::compute(int rank, const Step &step) {
  if (step.task.phase == Phase::update)
    return update(rank, step);
  bool enters = step.task.phase == Phase::forward || step.task.phase == Phase::evaluate;
  Occupant &self = enters ? take(rank, step) : find(rank, step);
  if (self.done.contains(step.task.phase))
    refuse(rank, step, "runs twice");
  findInputs(rank, step, self);
  if (step.task.phase == Phase::forward)
    forward(rank, step, self);
  else if (!enters)
    backward(rank, step, self);
  self.done.insert(step.task.phase);
  for (const Edge &edge : edges)
    if (produces(step.task, edge))
      self.produced.insert(edge.id);
}

void Replay::begin(int rank, const Action &action) {
  for (const Step &step : action.steps)
    if (step.kind == StepKind::send)
      send(rank, step);
}

void Replay::end(int rank, const Action &action) {
  for (const Step &step : action.steps) {
    if (step.kind == StepKind::receive)
      receive(rank, step, action);
    if (step.kind == StepKind::run)
      compute(rank, step);
    if (step.kind == StepKind::allReduce)
      for (size_t stage = 0; stage < stages.size(); ++stage)
        if (schedule.rankOf(static_cast<int>(stage), 0) == rank)
          stages[stage].summedOverRanks = true;
  }
}

/// Nothing may be left over: every stage has run every microbatch and made every update.
void Replay::checkEnd() const {
  std::vector<std::map<Phase, int64_t>> runs(stages.size());
  for (const auto &actions : rows.ranks)
    for (const Action &action : actions)
      if (action.steps[0].kind == StepKind::run)
        ++runs[action.steps[0].task.stage][action.steps[0].task.phase];
  auto expect = [&](size_t stage, Phase phase, int64_t count) {
    auto found = runs[stage].find(phase);
    int64_t times = found == runs[stage].end() ? 0 : found->second;
    if (times != count)
      throw Error("schedule " + schedule.name + ": phase " + letter(phase) + " of stage " +
                  text(stage) + " runs " + text(times) + " times for " + text(rows.microbatches) +
                  " microbatches, expected " + text(count) + "\n" +
                  drawGrid(schedule, edges, schedule.asynchronous ? rounds[0] : 1));
  };
  for (size_t stage = 0; stage < stages.size(); ++stage) {
    if (runs[stage].contains(Phase::evaluate)) {
      expect(stage, Phase::evaluate, rows.microbatches);
      continue;
    }
    expect(stage, Phase::forward, rows.microbatches);
    expect(stage, Phase::backward, split[stage] ? 0 : rows.microbatches);
    expect(stage, Phase::backwardInput, split[stage] ? rows.microbatches : 0);
    expect(stage, Phase::backwardWeight, split[stage] ? rows.microbatches : 0);
    expect(stage, Phase::update, rows.microbatches / schedule.microbatches);
  }
}

void Replay::run() {
  StrictPlay play(rows);
  std::vector<size_t> begun(rows.ranks.size());
  for (;;) {
    for (int rank = 0; rank < static_cast<int>(rows.ranks.size()); ++rank) {
      size_t position = play.positions()[rank];
      if (position == begun[rank] && position < rows.ranks[rank].size()) {
        begin(rank, rows.ranks[rank][position]);
        ++begun[rank];
      }
    }
    std::vector<StrictPlay::Progress> progress = play.sweep();
    if (progress.empty())
      break;
    for (auto [rank, action] : progress)
      end(rank, rows.ranks[rank][action]);
  }
  if (!play.ended())
    throw Error("schedule " + schedule.name + " stands still; prove it free of deadlock first");
  checkEnd();
}

} // namespace

void checkData(const Schedule &schedule, std::span<const Edge> edges) {
  checkEdges(schedule, edges);
  checkRows(schedule, edges);
  if (!schedule.asynchronous)
    return Replay(schedule, edges, {0, 0}).run();
  // Lifetimes are bounded by the slots: when every slot and version has been taken anew twice, and
  // the number of iterations has met every residue of the tables, nothing new can happen.
  int64_t longest = 2 * schedule.stages() + 2;
  for (const std::vector<int> &table : schedule.slotTable)
    longest = std::max(longest, 2 * static_cast<int64_t>(table.size()) + 2);
  for (int versions : schedule.versions)
    longest = std::max<int64_t>(longest, 2 * versions + 2);
  for (int64_t iterations = 0; iterations <= longest; ++iterations)
    Replay(schedule, edges, {iterations, longest - iterations}).run();
}

} // namespace pdc
