#include "compiler/Error.h"
#include "compiler/schedule/GradientSums.h"
#include "compiler/schedule/Grid.h"
#include "compiler/schedule/Proof.h"
#include "compiler/schedule/Replicas.h"
#include "compiler/schedule/RunCounts.h"
#include "compiler/schedule/Schedules.h"
#include "compiler/schedule/Slots.h"
#include "compiler/schedule/Strict.h"
#include "compiler/schedule/Text.h"
#include "compiler/schedule/Versions.h"

#include <algorithm>
#include <deque>
#include <set>

namespace pdc {

namespace {

std::string text(int64_t number) { return std::to_string(number); }

/// What is known of the microbatch that occupies a slot.
struct Occupant {
  int64_t microbatch = -1;
  std::set<Phase> done;
  std::set<int> received, produced, sent; ///< edges
  int64_t version = 0;                    ///< that it reads
};

struct StageState {
  std::vector<Occupant> slots;
  int64_t version = 0; ///< updates so far
  GradientSums sums;
};

/// By stage and slot a send of a group from there; all are of the microbatch that holds the slot.
using SlotsSentFrom = std::map<std::pair<int, int>, const Step *>;

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
  void receive(int rank, const Step &step, const SlotsSentFrom &sent);
  void compute(int rank, const Step &step);
  void handOver(int rank, const Step &step, const Edge &edge);
  void findInputs(int rank, const Step &step, const Occupant &self) const;
  void forward(int rank, const Step &step, Occupant &self);
  void requireKept(int rank, const Step &step, const Occupant &self);
  void backward(int rank, const Step &step, const Occupant &self);
  void checkGradients(int rank, const Step &step);
  void reduceGradients(int rank, const Step &step);
  void sumOverRanks(int rank, const Step &step);
  void update(int rank, const Step &step);

  StageState &stateOf(int rank, int stage) { return stages[stage][replicas[rank][stage]]; }
  Occupant &take(int rank, const Step &step);
  Occupant &find(int rank, const Step &step);
  bool hasEnded(int stage, const Occupant &occupant) const;
  bool isLocal(const Edge &edge) const { return schedule.shareRanks(edge.fromStage, edge.toStage); }
  int64_t dueVersion(const Task &task) const;

  const Schedule &schedule;
  std::span<const Edge> edges;
  StageEdges ofStages;
  std::vector<int64_t> rounds;
  UnrolledRows rows;
  std::vector<int64_t> roundStarts;
  std::vector<bool> split;
  std::vector<std::vector<int>> replicas;                   ///< by rank and stage
  std::vector<std::vector<StageState>> stages;              ///< by stage and replica
  std::map<std::pair<int, int>, std::deque<Step>> messages; ///< on their way, by ranks
};

Replay::Replay(const Schedule &schedule, std::span<const Edge> edges, std::vector<int64_t> counts)
    : schedule(schedule), edges(edges), ofStages(edges, schedule.stages()),
      rounds(std::move(counts)), rows(unroll(schedule, rounds)), split(findSplitStages(schedule)),
      replicas(schedule.ranks.size()), stages(schedule.stages()) {
  checkTables();
  for (size_t rank = 0; rank < replicas.size(); ++rank)
    for (int stage = 0; stage < schedule.stages(); ++stage)
      replicas[rank].push_back(replicaOn(schedule, stage, static_cast<int>(rank)));
  int64_t start = 0;
  for (int64_t round : rounds) {
    roundStarts.push_back(start);
    start += microbatchesOfRound(schedule, round);
  }
  for (size_t stage = 0; stage < stages.size(); ++stage) {
    StageState fresh;
    fresh.slots.resize(schedule.slots[stage]);
    stages[stage].assign(schedule.ranksOfStage[stage].size(), fresh);
  }
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
  if (step.kind != StepKind::allReduce && step.kind != StepKind::reduceGradients)
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
  return ran && std::ranges::all_of(ofStages.leaving(stage), [&](const Edge *edge) {
           return isLocal(*edge) || occupant.sent.contains(edge->id) ||
                  !occupant.produced.contains(edge->id);
         });
}

Occupant &Replay::take(int rank, const Step &step) {
  int stage = step.task.stage, slot = slotOf(schedule, stage, step.task.microbatch);
  Occupant &occupant = stateOf(rank, stage).slots[slot];
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
  Occupant &occupant = stateOf(rank, stage).slots[slot];
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

void Replay::receive(int rank, const Step &step, const SlotsSentFrom &sent) {
  const Task &task = step.task;
  auto other = sent.find({task.stage, slotOf(schedule, task.stage, task.microbatch)});
  if (other != sent.end() && other->second->task.microbatch != task.microbatch)
    refuse(rank, step, "its slot is being sent from by " + toString(*other->second));
  Occupant &self = take(rank, step);
  std::deque<Step> &line = messages[{step.peer, rank}];
  Step message = line.front();
  line.pop_front();
  if (message.edge != step.edge || message.task.microbatch != step.task.microbatch)
    refuse(rank, step, "rank " + text(step.peer) + " has sent " + toString(message) + " instead");
  if (!self.received.insert(step.edge).second)
    refuse(rank, step, "'" + edges[step.edge].tensor + "' is received twice");
}

/// To a stage of the same rank.
void Replay::handOver(int rank, const Step &step, const Edge &edge) {
  Step taken = step;
  taken.task.stage = edge.toStage;
  take(rank, taken).received.insert(edge.id);
}

void Replay::findInputs(int rank, const Step &step, const Occupant &self) const {
  for (const Edge *edge : ofStages.entering(step.task.stage))
    if (consumes(step.task, *edge) && !self.received.contains(edge->id))
      refuse(rank, step, "its input '" + edge->tensor + "' is not there");
}

int64_t Replay::dueVersion(const Task &task) const {
  int64_t drained = *std::prev(std::ranges::upper_bound(roundStarts, task.microbatch));
  return versionRead(schedule, task.stage, task.microbatch, drained);
}

/// With stashing the rows have to make the rule true: the newest version is the one that it says.
/// So they have at stage 0 under vertical sync; else the version is chosen by number.
void Replay::forward(int rank, const Step &step, Occupant &self) {
  const StageState &stage = stateOf(rank, step.task.stage);
  bool chosen = schedule.weightRule == WeightRule::previous ||
                (schedule.weightRule == WeightRule::atEntry && step.task.stage > 0);
  self.version = chosen ? dueVersion(step.task) : stage.version;
  if (self.version != dueVersion(step.task))
    refuse(rank, step,
           "reads weight version " + text(self.version) + ", the update rule says version " +
               text(dueVersion(step.task)));
  if (self.version > stage.version)
    refuse(rank, step,
           "reads weight version " + text(self.version) + ", but " + text(stage.version) +
               " is the latest");
  requireKept(rank, step, self);
}

void Replay::requireKept(int rank, const Step &step, const Occupant &self) {
  int64_t latest = stateOf(rank, step.task.stage).version;
  int kept = schedule.versions[step.task.stage];
  if (latest - self.version >= kept)
    refuse(
        rank, step,
        "weight version " + text(self.version) + ", which " +
            (step.task.phase == Phase::forward ? "the update rule says" : "its forward pass read") +
            ", is overwritten; " + text(kept) + " are kept and " + text(latest) + " is the latest");
}

void Replay::backward(int rank, const Step &step, const Occupant &self) {
  StageState &stage = stateOf(rank, step.task.stage);
  if (!self.done.contains(Phase::forward))
    refuse(rank, step, "its forward pass has not run");
  if (step.task.phase == Phase::backwardWeight && !self.done.contains(Phase::backwardInput))
    refuse(rank, step, "its input gradient has not run");
  requireKept(rank, step, self);
  int64_t before = stage.sums.last(step.task.phase);
  if (schedule.asynchronous && step.task.microbatch < before)
    refuse(rank, step,
           "an asynchronous schedule sums gradients in ascending order of microbatches, "
           "microbatch " +
               text(before) + " came before");
  stage.sums.add(step.task.phase, step.task.microbatch);
}

/// That a replica has summed all of its microbatches of an update once, and no other.
void Replay::checkGradients(int rank, const Step &step) {
  StageState &stage = stateOf(rank, step.task.stage);
  int64_t last = step.task.microbatch, size = microbatchesPerUpdate(schedule, step.task.stage);
  std::vector<int64_t> due;
  for (int64_t microbatch = last - size + 1; microbatch <= last; ++microbatch)
    if (microbatch >= 0 && schedule.rankOf(step.task.stage, microbatch) == rank)
      due.push_back(microbatch);
  std::vector<Phase> phases = {Phase::backward};
  if (split[step.task.stage])
    phases = {Phase::backwardInput, Phase::backwardWeight};
  // Updates leave nothing out: the next one begins where the last one ended.
  if (stage.version * size != last - size + 1)
    due = {-1};
  std::string wrong = stage.sums.missing(phases, due, last - size + 1, last);
  if (!wrong.empty())
    refuse(rank, step, wrong);
}

void Replay::reduceGradients(int rank, const Step &step) {
  StageState &stage = stateOf(rank, step.task.stage);
  checkGradients(rank, step);
  if (schedule.replicas(step.task.stage) < 2)
    refuse(rank, step, "the stage has no other replica");
  if (stage.sums.overReplicas)
    refuse(rank, step, "the replicas' gradients are summed twice");
  stage.sums.overReplicas = true;
}

/// Comes once per update, when every stage has all of its gradients: what stages tell each other
/// there, gradients of tied weights, is complete and told once.
void Replay::sumOverRanks(int rank, const Step &step) {
  for (int stage = 0; stage < schedule.stages(); ++stage) {
    if (replicas[rank][stage] < 0)
      continue;
    StageState &state = stateOf(rank, stage);
    int64_t last = (state.version + 1) * microbatchesPerUpdate(schedule, stage) - 1;
    checkGradients(rank, runStep(stage, Phase::update, last));
    if (schedule.replicas(stage) > 1 && !state.sums.overReplicas)
      refuse(rank, step,
             "the gradients of the replicas of stage " + text(stage) + " are not summed yet");
    if (state.sums.overRanks)
      refuse(rank, step, "the ranks sum twice for one update");
    state.sums.overRanks = true;
  }
}

void Replay::update(int rank, const Step &step) {
  StageState &stage = stateOf(rank, step.task.stage);
  checkGradients(rank, step);
  if (schedule.replicas(step.task.stage) > 1 && !stage.sums.overReplicas)
    refuse(rank, step, "the sum over the stage's replicas has not come");
  if (!schedule.asynchronous && !stage.sums.overRanks)
    refuse(rank, step, "the sum over all ranks has not come");
  stage.sums.clear();
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
  for (const Edge *edge : ofStages.leaving(step.task.stage)) {
    if (!produces(step.task, *edge))
      continue;
    self.produced.insert(edge->id);
    if (isLocal(*edge))
      handOver(rank, step, *edge);
  }
}

void Replay::begin(int rank, const Action &action) {
  for (const Step &step : action.steps)
    if (step.kind == StepKind::send)
      send(rank, step);
}

void Replay::end(int rank, const Action &action) {
  // A group may have thousands of steps, of as many edges: none looks for another.
  SlotsSentFrom sent;
  for (const Step &step : action.steps)
    if (step.kind == StepKind::send)
      sent.try_emplace({step.task.stage, slotOf(schedule, step.task.stage, step.task.microbatch)},
                       &step);
  for (const Step &step : action.steps) {
    if (step.kind == StepKind::receive)
      receive(rank, step, sent);
    if (step.kind == StepKind::run)
      compute(rank, step);
    if (step.kind == StepKind::reduceGradients)
      reduceGradients(rank, step);
    if (step.kind == StepKind::allReduce)
      sumOverRanks(rank, step);
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
  checkRunCounts(schedule, edges, rows, schedule.asynchronous ? rounds[0] : 1);
}

} // namespace

void checkData(const Schedule &schedule, std::span<const Edge> edges) {
  checkEdges(schedule, edges);
  checkRows(schedule, edges);
  if (!schedule.asynchronous)
    return Replay(schedule, edges, {0, 0}).run();
  // Lifetimes are bounded by the slots: when every slot and version has been taken anew twice, and
  // the number of iterations has met every residue of the tables, nothing new can happen.
  int64_t longest = 2;
  for (int stage = 0; stage < schedule.stages(); ++stage) {
    auto slots = static_cast<int64_t>(schedule.slotTable[stage].size());
    int64_t perIteration = std::max<int64_t>(schedule.period / schedule.replicas(stage), 1);
    int64_t ofVersions = schedule.versions[stage] * microbatchesPerUpdate(schedule, stage) /
                         schedule.replicas(stage);
    int64_t turns = 2 * std::max<int64_t>({schedule.stages(), slots, ofVersions}) + 2;
    longest = std::max({longest, (turns + perIteration - 1) / perIteration, slots});
  }
  for (int64_t iterations = 0; iterations <= longest; ++iterations)
    Replay(schedule, edges, {iterations, longest - iterations}).run();
}

} // namespace pdc
