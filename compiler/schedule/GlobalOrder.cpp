#include "compiler/Error.h"
#include "compiler/schedule/Grid.h"
#include "compiler/schedule/Replicas.h"
#include "compiler/schedule/Stall.h"
#include "compiler/schedule/Transfers.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

namespace pdc {

namespace {

constexpr double kForever = std::numeric_limits<double>::infinity();

/// When runs start in an execution of unit costs. Of an asynchronous schedule the steady state is
/// taken and continued to both sides, so that every iteration looks like every other.
class StartTimes {
public:
  StartTimes(const Schedule &schedule, std::span<const Edge> given);
  double of(const Task &task) const;
  double endOf(const Task &task) const { return of(task) + 1; }
  double secondsPerIteration() const { return rhythm * static_cast<double>(period); }

private:
  Task inFirstPeriod(const Task &task) const;
  double timeOf(const Task &key, const Task &task) const;

  const Schedule &schedule;
  std::vector<Edge> edges;
  std::map<Task, double> times;
  int64_t period = 0;
  double rhythm = 0; ///< seconds per microbatch
};

Task StartTimes::inFirstPeriod(const Task &task) const {
  Task first = task;
  first.microbatch = ((task.microbatch % period) + period) % period;
  return first;
}

StartTimes::StartTimes(const Schedule &schedule, std::span<const Edge> given)
    : schedule(schedule), edges(chainStages(schedule, given)) {
  PlayCosts costs = unitCosts(schedule);
  period = schedule.asynchronous ? schedule.period : 0;
  int64_t settle = iterationsToSettle(schedule);
  const int64_t iterations = period ? 4 * settle : 1;
  auto playWith = [&](std::span<const Edge> played) {
    return play(schedule, played, costs, TransferModel::overlapped, iterations);
  };
  Timeline timeline = playWith(edges);
  // Rows that somebody has written may run a backward pass before that of the next stage.
  if (timeline.stall && period) {
    edges.assign(given.begin(), given.end());
    timeline = playWith(edges);
  }
  if (timeline.stall)
    refuseStall(schedule, given, iterations);
  for (const Event &event : timeline.events)
    if (event.kind == StepKind::run)
      times[event.task] = event.start;
  if (!period)
    return;
  rhythm = secondsPerUpdate(schedule, edges, costs, TransferModel::overlapped);
  std::map<Task, double> steady;
  int64_t first = 2 * settle * period;
  for (const auto &[task, start] : times)
    if (task.microbatch >= first && task.microbatch < first + period)
      steady[inFirstPeriod(task)] =
          start - rhythm * static_cast<double>(task.microbatch - inFirstPeriod(task).microbatch);
  times = std::move(steady);
}

/// Rows that somebody has written may run a microbatch twice in one iteration and another one
/// never.
double StartTimes::timeOf(const Task &key, const Task &task) const {
  if (auto found = times.find(key); found != times.end())
    return found->second;
  throw Error("schedule " + schedule.name + ": " + toString(task) +
              " does not run once for every microbatch\n" +
              drawGrid(schedule, edges, iterationsToDraw(schedule),
                       Mark{schedule.rankOf(task.stage, task.microbatch), task}));
}

double StartTimes::of(const Task &task) const {
  if (!period)
    return timeOf(task, task);
  Task first = inFirstPeriod(task);
  return timeOf(first, task) + rhythm * static_cast<double>(task.microbatch - first.microbatch);
}

/// One transfer with its place in the linear order.
struct Placed {
  double time = 0;
  int64_t microbatch = 0;
  int edge = 0;
  Step step;

  bool operator<(const Placed &other) const {
    return std::tie(time, microbatch, edge) < std::tie(other.time, other.microbatch, other.edge);
  }
};

/// The runs of all ranks, to be found by what they are.
class Runs {
public:
  Runs(const UnrolledRows &rows, int stages) : byStage(stages) {
    for (const auto &actions : rows.ranks)
      for (const Action &action : actions)
        if (const Step &step = action.steps[0]; step.kind == StepKind::run) {
          byStage[step.task.stage].push_back(step.task);
          known.insert(step.task);
        }
  }
  const std::vector<Task> &of(int stage) const { return byStage[stage]; }

  /// The run that takes an edge's tensor of a microbatch; nothing where no row has it.
  std::optional<Task> consumerOf(const Edge &edge, const Task &producer) const {
    for (Phase phase : {edge.consumer, Phase::backwardInput})
      if (Task task{edge.toStage, phase, producer.microbatch};
          consumes(task, edge) && known.contains(task))
        return task;
    return std::nullopt;
  }

private:
  std::vector<std::vector<Task>> byStage;
  std::set<Task> known;
};

/// By rank.
std::vector<std::vector<Placed>> placeAll(const Schedule &schedule, std::span<const Edge> edges,
                                          const StartTimes &times, const Runs &runs) {
  std::vector<std::vector<Placed>> placed(schedule.ranks.size());
  for (const Edge &edge : edges) {
    if (schedule.shareRanks(edge.fromStage, edge.toStage))
      continue;
    for (const Task &producer : runs.of(edge.fromStage)) {
      if (!produces(producer, edge))
        continue;
      int from = schedule.rankOf(edge.fromStage, producer.microbatch);
      int to = schedule.rankOf(edge.toStage, producer.microbatch);
      std::optional<Task> consumer = runs.consumerOf(edge, producer);
      if (!consumer)
        throw Error("schedule " + schedule.name + ": nothing consumes '" + edge.tensor + "' of " +
                    toString(producer) + "\n" +
                    drawGrid(schedule, edges, iterationsToDraw(schedule), Mark{from, producer}));
      double time = times.endOf(producer);
      placed[from].push_back(
          {time, producer.microbatch, edge.id, {StepKind::send, producer, edge.id, to}});
      placed[to].push_back(
          {time, producer.microbatch, edge.id, {StepKind::receive, *consumer, edge.id, from}});
    }
  }
  for (std::vector<Placed> &own : placed)
    std::ranges::sort(own, std::less<>());
  return placed;
}

/// Rows with the transfers that are due before each run; those due until `until` stand at the end.
class Merge {
public:
  Merge(std::vector<Placed> transfers, const StartTimes &times)
      : transfers(std::move(transfers)), times(times) {}

  std::vector<Step> part(const std::vector<Step> &rows, int64_t shift, double until) {
    std::vector<Step> result;
    for (Step step : rows) {
      step.task.microbatch += shift;
      // Replicas sum their gradients where their update starts, together.
      take(result, step.kind == StepKind::allReduce ? kForever : times.of(step.task), shift);
      step.task.microbatch -= shift;
      result.push_back(step);
    }
    take(result, until, shift);
    return result;
  }

private:
  void take(std::vector<Step> &result, double until, int64_t shift) {
    // Times are sums of whole seconds in floating point: half a second keeps them apart.
    for (; next < transfers.size() && transfers[next].time < until + 0.25; ++next) {
      result.push_back(transfers[next].step);
      result.back().task.microbatch -= shift;
    }
  }

  std::vector<Placed> transfers;
  const StartTimes &times;
  size_t next = 0;
};

void mergeRank(int rank, Schedule &schedule, std::span<const Edge> edges,
               std::vector<Placed> transfers, const StartTimes &times, int64_t iterations) {
  RankRows &rows = schedule.ranks[rank];
  Merge merge(std::move(transfers), times);
  if (!schedule.asynchronous) {
    rows.warmUp = merge.part(rows.warmUp, 0, kForever);
    return;
  }
  // What an iteration before the first would have moved belongs to the warm-up.
  double border = rows.repeat.empty()
                      ? -kForever
                      : times.of(rows.repeat.back().task) - times.secondsPerIteration();
  RankRows merged;
  merged.warmUp = merge.part(rows.warmUp, 0, border);
  for (int64_t i = 0; i < iterations; ++i) {
    std::vector<Step> iteration = merge.part(rows.repeat, i * schedule.period, -kForever);
    if (i && iteration != merged.repeat)
      throw Error("schedule " + schedule.name + ": the transfers of rank " + std::to_string(rank) +
                  " do not repeat with period " + std::to_string(schedule.period) + "\n" +
                  drawGrid(schedule, edges, iterationsToDraw(schedule)));
    merged.repeat = std::move(iteration);
  }
  merged.drain = merge.part(rows.drain, iterations * schedule.period, kForever);
  rows = std::move(merged);
}

} // namespace

std::vector<Edge> chainStages(const Schedule &schedule, std::span<const Edge> edges) {
  std::vector<Edge> chained(edges.begin(), edges.end());
  for (int stage = 1; schedule.asynchronous && stage < schedule.stages(); ++stage)
    chained.push_back({static_cast<int>(chained.size()), "", stage, stage - 1, Phase::backward,
                       Phase::backward, 0});
  return chained;
}

void placeTransfersInGlobalOrder(Schedule &schedule, std::span<const Edge> edges) {
  int64_t iterations = schedule.asynchronous ? iterationsToSettle(schedule) : 0;
  std::vector<int64_t> rounds = {iterations};
  StartTimes times(schedule, edges);
  Runs runs(unroll(schedule, rounds), schedule.stages());
  std::vector<std::vector<Placed>> transfers = placeAll(schedule, edges, times, runs);
  for (size_t rank = 0; rank < schedule.ranks.size(); ++rank)
    mergeRank(static_cast<int>(rank), schedule, edges, std::move(transfers[rank]), times,
              iterations);
}

} // namespace pdc
