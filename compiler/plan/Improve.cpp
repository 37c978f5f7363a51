#include "compiler/plan/Improve.h"

#include "compiler/plan/Bounds.h"
#include "compiler/schedule/Rhythm.h"
#include "compiler/simulator/PlanSimulation.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

namespace pdc {

namespace {

constexpr double kNoPlan = std::numeric_limits<double>::infinity();
/// Below this a gain is an error of rounding.
constexpr double kRounding = 1e-9;

/// A unit and the stage that it would go to.
struct Move {
  int unit, stage;
};

class Improvement {
public:
  Improvement(const PlanGraph &graph, const PlanRequest &request, const Planned &planned,
              int64_t effort)
      : graph(graph), request(request), plan(planned.plan), stages(planned.stageOfUnit),
        readers(stages.size()), sources(stages.size()), left(effort),
        best(planned.plan.secondsPerMinibatch) {
    for (const PlanValue &value : graph.values)
      for (int consumer : value.consumers) {
        readers[value.producer].push_back(consumer);
        sources[consumer].push_back(value.producer);
      }
    for (size_t unit = 0; unit < stages.size(); ++unit)
      load(static_cast<int>(unit), 1);
  }

  bool run() {
    bool improved = false;
    // Fewer moves than this find nothing but by luck.
    if (20 * runsOfPlay() > left)
      return false;
    while (tryMoves() || tryPairs())
      improved = true;
    return improved;
  }
  const std::vector<int> &found() const { return stages; }

private:
  bool allows(const Move &move) const;
  std::vector<Move> moves() const;
  bool tryMoves();
  bool tryPairs();
  bool accept(std::vector<Move> changes);
  void load(int unit, int sign);
  void take(const std::vector<int> &other);
  double measure(double limit);
  int64_t runsOfPlay() const;

  const PlanGraph &graph;
  const PlanRequest &request;
  Plan plan; ///< with the rows, whose depths do not depend on where the cuts are
  std::vector<int> stages;
  std::vector<std::vector<int>> readers, sources; ///< by unit
  std::map<int, double> work; ///< by the first rank of a stage: seconds of a rank's runs
  int64_t left;
  double best;
};

/// A few messages for each run are part of it; many count as well. Where replicas update behind
/// each round, each plays its rhythm, and sums bucket by bucket take as long as the runs.
int64_t Improvement::runsOfPlay() const {
  constexpr int64_t fewMessages = 16;
  auto count = static_cast<int64_t>(plan.stages.size());
  auto messages = static_cast<int64_t>(plan.edges.size()) / fewMessages;
  int64_t microbatches = std::max(plan.schedule.microbatches, 2 * count);
  if (plan.schedule.asynchronous && plan.mostReplicas() > 1)
    microbatches = std::max(microbatches, 6 * enoughMicrobatches(plan.schedule.ranksOfStage));
  return std::max(2 * count, messages) * microbatches;
}

/// Values go to the same or a later stage.
bool Improvement::allows(const Move &move) const {
  return move.stage >= 0 && move.stage < static_cast<int>(plan.stages.size()) &&
         std::ranges::all_of(readers[move.unit],
                             [&](int reader) { return stages[reader] >= move.stage; }) &&
         std::ranges::all_of(sources[move.unit],
                             [&](int source) { return stages[source] <= move.stage; });
}

std::vector<Move> Improvement::moves() const {
  std::vector<Move> list;
  for (int unit = 0; unit < static_cast<int>(stages.size()); ++unit)
    for (int stage : {stages[unit] - 1, stages[unit] + 1})
      if (Move move{unit, stage}; allows(move))
        list.push_back(move);
  return list;
}

/// Seconds of the plan as it is played; where they are sure to reach the limit, no fewer than that.
double Improvement::measure(double limit) {
  size_t count = plan.stages.size();
  std::vector<bool> used(count);
  for (int stage : stages)
    used[stage] = true;
  if (std::ranges::find(used, false) != used.end())
    return kNoPlan;
  plan.edges = findEdges(graph, stages);
  plan.stages = sumStages(graph, stages);
  addUpdateRule(plan.stages, graph, stages, plan.schedule);
  for (PlanStage &stage : plan.stages) {
    stage.ranks = plan.schedule.ranksOfStage[stage.id];
    stage.replicas = static_cast<int>(stage.ranks.size());
  }
  addMemory(plan, sumMemory(graph, stages, plan.edges), request.recompute, request);
  if (!fitsMemory(plan, request))
    return kNoPlan;
  left -= runsOfPlay();
  return simulatedSecondsPerMinibatch(plan, limit);
}

/// Adds the unit's part of a minibatch to the ranks of its stage, or takes it away: all replicas
/// have as much, and stages on a rank have the same ranks.
void Improvement::load(int unit, int sign) {
  const std::vector<int> &ranks = plan.schedule.ranksOfStage[stages[unit]];
  double runs = static_cast<double>(plan.schedule.microbatches) / static_cast<double>(ranks.size());
  work[ranks.front()] += sign * runs * microbatchSeconds(graph.units[unit]);
}

void Improvement::take(const std::vector<int> &other) {
  for (int unit = 0; unit < static_cast<int>(stages.size()); ++unit)
    if (stages[unit] != other[unit]) {
      load(unit, -1);
      stages[unit] = other[unit];
      load(unit, 1);
    }
}

/// Makes the changes and keeps them if the plan gets faster. No rank takes less than its work: most
/// changes need not be played.
bool Improvement::accept(std::vector<Move> changes) {
  std::vector<int> before = stages, after = stages;
  for (const Move &move : changes) {
    if (!allows(move)) {
      take(before);
      return false;
    }
    after[move.unit] = move.stage;
    take(after);
  }
  double heaviest = 0;
  for (auto [rank, seconds] : work)
    heaviest = std::max(heaviest, seconds);
  --left;
  double most = best * (1 - kRounding);
  double seconds = left > 0 && heaviest < most ? measure(most) : kNoPlan;
  if (seconds < most) {
    best = seconds;
    return true;
  }
  take(before);
  return false;
}

bool Improvement::tryMoves() {
  for (const Move &move : moves())
    if (accept({move}))
      return true;
  return false;
}

/// Two units that change places, or go one behind the other.
bool Improvement::tryPairs() {
  for (const Move &first : moves()) {
    int before = std::exchange(stages[first.unit], first.stage);
    std::vector<Move> seconds = moves();
    stages[first.unit] = before;
    for (const Move &second : seconds) {
      if (left <= 0)
        return false;
      if (second.unit != first.unit && accept({first, second}))
        return true;
    }
  }
  return false;
}

} // namespace

std::optional<std::vector<int>> improveCut(const PlanGraph &graph, const PlanRequest &request,
                                           const Planned &planned, int64_t effort) {
  Improvement improvement(graph, request, planned, effort);
  if (planned.plan.stages.size() < 2 || !improvement.run())
    return std::nullopt;
  return improvement.found();
}

} // namespace pdc
