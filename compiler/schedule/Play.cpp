#include "compiler/schedule/Play.h"

#include "compiler/schedule/Replicas.h"

#include <algorithm>
#include <set>

namespace pdc {

double StageSeconds::of(Phase phase) const {
  switch (phase) {
  case Phase::forward:
    return forward;
  case Phase::backward:
    return backwardInput + backwardWeight;
  case Phase::backwardInput:
    return backwardInput;
  case Phase::backwardWeight:
    return backwardWeight;
  case Phase::update:
    return update;
  case Phase::evaluate:
    return evaluate;
  case Phase::prepare:
    return 0;
  }
  return 0;
}

PlayCosts unitCosts(const Schedule &schedule) {
  PlayCosts costs;
  for (bool split : findSplitStages(schedule))
    costs.stages.push_back({1, 1, split ? 1.0 : 0.0, 0, 1});
  return costs;
}

namespace {

using Pair = std::pair<int, int>;

/// Plays actions in any order that respects their waits; times do not depend on that order, since
/// every wait is for a certain event and links serve their messages in the sender's order.
class Player {
public:
  Player(const Schedule &schedule, std::span<const Edge> edges, const PlayCosts &costs,
         TransferModel model, UnrolledRows rows)
      : schedule(schedule), edges(edges, schedule.stages()), costs(costs), model(model),
        rows(std::move(rows)), ranks(static_cast<int>(schedule.ranks.size())), position(ranks),
        clock(ranks), busy(ranks), reached(ranks) {}

  Timeline play();

private:
  struct Message {
    std::optional<double> sent, received; ///< when either side came to it
    std::optional<double> done;
  };

  bool advance(int rank);
  bool run(int rank, const Step &step);
  std::optional<double> inputsReady(const Task &task) const;
  void deliver(const Task &task, double end);
  bool sumGradients(int rank, const Step &step);
  bool sumOver(int rank, int group, size_t members, const Step &step, double seconds);
  bool exchange(int rank, const Action &action);
  void reach(int rank, const Action &action);
  void record(int rank, const Step &step, double start, double end);
  void summarise();

  const Schedule &schedule;
  StageEdges edges;
  const PlayCosts &costs;
  TransferModel model;
  UnrolledRows rows;
  int ranks;
  std::vector<size_t> position;
  std::vector<double> clock, busy;
  std::vector<bool> reached; ///< whether the current action has been announced to peers
  std::set<Task> ended;
  std::map<std::pair<int, int64_t>, double> arrived; ///< (edge, microbatch), overlapped
  std::map<Pair, double> linkFree;
  std::map<Pair, std::vector<Message>> messages;
  std::map<Pair, size_t> sends, receives;
  /// Per rank and transfer of its current group: pair and number of its message.
  std::map<int, std::vector<std::pair<Pair, size_t>>> current;
  /// Per group (a stage's replicas, or all ranks) and sum: the times at which ranks came to it.
  std::map<int, std::vector<std::vector<double>>> sums;
  std::map<Pair, size_t> sumsOfRank; ///< by group and rank
  Timeline timeline;
};

void Player::record(int rank, const Step &step, double start, double end) {
  timeline.events.push_back({rank, step.kind, step.task, step.edge, start, end});
  if (step.kind == StepKind::run)
    busy[rank] += end - start;
}

std::optional<double> Player::inputsReady(const Task &task) const {
  double ready = 0;
  bool isBackward = task.phase == Phase::backward || task.phase == Phase::backwardInput;
  if (isBackward && !ended.contains({task.stage, Phase::forward, task.microbatch}))
    return std::nullopt;
  for (const Edge *edge : edges.entering(task.stage)) {
    if (!consumes(task, *edge))
      continue;
    auto found = arrived.find({edge->id, task.microbatch});
    if (found == arrived.end())
      return std::nullopt;
    ready = std::max(ready, found->second);
  }
  return ready;
}

void Player::deliver(const Task &task, double end) {
  for (const Edge *edge : edges.leaving(task.stage)) {
    if (!produces(task, *edge))
      continue;
    int from = schedule.rankOf(edge->fromStage, task.microbatch);
    int to = schedule.rankOf(edge->toStage, task.microbatch);
    double seconds = from == to || costs.edges.empty() ? 0 : costs.edges[edge->id];
    double start = from == to ? end : std::max(end, linkFree[{from, to}]);
    arrived[{edge->id, task.microbatch}] = start + seconds;
    if (from == to)
      continue;
    linkFree[{from, to}] = start + seconds;
    record(from, {StepKind::send, task, edge->id, to}, start, start + seconds);
  }
}

bool Player::run(int rank, const Step &step) {
  double start = clock[rank];
  if (model == TransferModel::overlapped) {
    std::optional<double> ready = inputsReady(step.task);
    if (!ready)
      return false;
    start = std::max(start, *ready);
  }
  double end = start + costs.stages[step.task.stage].of(step.task.phase);
  record(rank, step, start, end);
  clock[rank] = end;
  ended.insert(step.task);
  if (model == TransferModel::overlapped)
    deliver(step.task, end);
  return true;
}

bool Player::sumGradients(int rank, const Step &step) {
  int stage = step.task.stage;
  if (step.kind == StepKind::allReduce)
    return sumOver(rank, -1, schedule.ranks.size(), step, costs.allReduce);
  return sumOver(rank, stage, schedule.ranksOfStage[stage].size(), step,
                 costs.reductions.empty() ? 0 : costs.reductions[stage]);
}

/// The ranks of a group end a sum together, when the last has come.
bool Player::sumOver(int rank, int group, size_t members, const Step &step, double seconds) {
  size_t number = sumsOfRank[{group, rank}];
  std::vector<std::vector<double>> &all = sums[group];
  if (all.size() <= number)
    all.resize(number + 1);
  if (!reached[rank])
    all[number].push_back(clock[rank]);
  reached[rank] = true;
  if (all[number].size() < members)
    return false;
  double start = *std::max_element(all[number].begin(), all[number].end());
  record(rank, step, start, start + seconds);
  clock[rank] = start + seconds;
  ++sumsOfRank[{group, rank}];
  return true;
}

void Player::reach(int rank, const Action &action) {
  current[rank].clear();
  for (const Step &step : action.steps) {
    bool send = step.kind == StepKind::send;
    Pair pair = send ? Pair{rank, step.peer} : Pair{step.peer, rank};
    size_t number = (send ? sends : receives)[pair]++;
    std::vector<Message> &list = messages[pair];
    if (list.size() <= number)
      list.resize(number + 1);
    (send ? list[number].sent : list[number].received) = clock[rank];
    current[rank].push_back({pair, number});
  }
}

bool Player::exchange(int rank, const Action &action) {
  if (!reached[rank])
    reach(rank, action);
  reached[rank] = true;
  double end = clock[rank];
  for (size_t i = 0; i < action.steps.size(); ++i) {
    auto [pair, number] = current[rank][i];
    Message &message = messages[pair][number];
    if (!message.sent || !message.received)
      return false;
    if (!message.done) {
      double start = std::max({*message.sent, *message.received, linkFree[pair]});
      int edge = action.steps[i].edge;
      message.done = start + (costs.edges.empty() ? 0 : costs.edges[edge]);
      linkFree[pair] = *message.done;
    }
    end = std::max(end, *message.done);
  }
  for (const Step &step : action.steps)
    record(rank, step, clock[rank], end);
  clock[rank] = end;
  return true;
}

bool Player::advance(int rank) {
  if (position[rank] == rows.ranks[rank].size())
    return false;
  const Action &action = rows.ranks[rank][position[rank]];
  bool done = true;
  if (action.steps[0].kind == StepKind::run)
    done = run(rank, action.steps[0]);
  else if (!action.transfers())
    done = sumGradients(rank, action.steps[0]);
  else if (model == TransferModel::blocking)
    done = exchange(rank, action);
  if (!done)
    return false;
  reached[rank] = false;
  ++position[rank];
  return true;
}

void Player::summarise() {
  timeline.seconds = *std::max_element(clock.begin(), clock.end());
  for (int rank = 0; rank < ranks; ++rank)
    timeline.idle.push_back(timeline.seconds - busy[rank]);
  timeline.peakActivations = peakActivations(rows, schedule.stages());
  std::stable_sort(timeline.events.begin(), timeline.events.end(),
                   [](const Event &a, const Event &b) {
                     return std::pair(a.start, a.rank) < std::pair(b.start, b.rank);
                   });
  Stall stall;
  for (int rank = 0; rank < ranks; ++rank) {
    bool ended = position[rank] == rows.ranks[rank].size();
    stall.next.push_back(ended ? std::nullopt
                               : std::optional(rows.ranks[rank][position[rank]].steps[0]));
    if (!ended)
      timeline.stall = stall;
  }
  if (timeline.stall)
    timeline.stall = stall;
}

Timeline Player::play() {
  for (bool progress = true; progress;) {
    progress = false;
    for (int rank = 0; rank < ranks; ++rank)
      while (advance(rank))
        progress = true;
  }
  summarise();
  return std::move(timeline);
}

} // namespace

std::vector<int> peakActivations(const UnrolledRows &rows, int stages) {
  std::vector<int> peak(stages);
  std::set<std::pair<int, int64_t>> halves;
  for (const auto &actions : rows.ranks) {
    std::vector<int> held(stages);
    for (const Action &action : actions) {
      const Step &step = action.steps[0];
      int stage = step.task.stage;
      if (step.kind != StepKind::run)
        continue;
      if (step.task.phase == Phase::forward)
        peak[stage] = std::max(peak[stage], ++held[stage]);
      bool half =
          step.task.phase == Phase::backwardInput || step.task.phase == Phase::backwardWeight;
      bool second = half && !halves.insert({stage, step.task.microbatch}).second;
      if (step.task.phase == Phase::backward || second)
        --held[stage];
    }
  }
  return peak;
}

Timeline play(const Schedule &schedule, std::span<const Edge> edges, const PlayCosts &costs,
              TransferModel model, int64_t iterations) {
  std::vector<int64_t> rounds = {iterations};
  if (!schedule.asynchronous)
    rounds.assign(iterations, 0);
  return Player(schedule, edges, costs, model, unroll(schedule, rounds)).play();
}

double secondsPerUpdate(const Schedule &schedule, std::span<const Edge> edges,
                        const PlayCosts &costs, TransferModel model) {
  if (!schedule.asynchronous)
    return play(schedule, edges, costs, model).seconds;
  // Long enough for the slowest rank's rhythm to have reached every other: the difference of two
  // runs of equal warm-up and drain is steady state alone.
  int64_t settle = iterationsToSettle(schedule);
  double few = play(schedule, edges, costs, model, settle).seconds;
  double many = play(schedule, edges, costs, model, 2 * settle).seconds;
  return (many - few) / static_cast<double>(settle * schedule.period);
}

} // namespace pdc
