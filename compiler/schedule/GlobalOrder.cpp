#include "compiler/Error.h"
#include "compiler/schedule/Play.h"
#include "compiler/schedule/Replicas.h"
#include "compiler/schedule/Transfers.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace pdc {

namespace {

constexpr double kForever = std::numeric_limits<double>::infinity();

/// When runs start in an execution of unit costs. Of an asynchronous schedule the steady state is
/// taken and continued to both sides, so that every iteration looks like every other.
class StartTimes {
public:
  StartTimes(const Schedule &schedule, std::span<const Edge> edges);
  double of(const Task &task) const;
  double endOf(const Task &task) const { return of(task) + 1; }
  double secondsPerIteration() const { return rhythm * static_cast<double>(period); }

private:
  Task inFirstPeriod(const Task &task) const;

  std::map<Task, double> times;
  int64_t period = 0;
  double rhythm = 0; ///< seconds per microbatch
};

Task StartTimes::inFirstPeriod(const Task &task) const {
  Task first = task;
  first.microbatch = ((task.microbatch % period) + period) % period;
  return first;
}

StartTimes::StartTimes(const Schedule &schedule, std::span<const Edge> edges) {
  PlayCosts costs = unitCosts(schedule);
  period = schedule.asynchronous ? schedule.period : 0;
  int64_t settle = iterationsToSettle(schedule);
  Timeline timeline =
      play(schedule, edges, costs, TransferModel::overlapped, period ? 4 * settle : 1);
  if (timeline.stall)
    throw Error("schedule " + schedule.name +
                " cannot run: a task comes before one that makes its inputs");
  for (const Event &event : timeline.events)
    if (event.kind == StepKind::run)
      times[event.task] = event.start;
  if (!period)
    return;
  rhythm = secondsPerUpdate(schedule, edges, costs, TransferModel::overlapped);
  std::map<Task, double> steady;
  for (int64_t microbatch = 2 * settle * period; microbatch < (2 * settle + 1) * period;
       ++microbatch)
    for (const auto &[task, start] : times)
      if (task.microbatch == microbatch)
        steady[inFirstPeriod(task)] =
            start - rhythm * static_cast<double>(microbatch - inFirstPeriod(task).microbatch);
  times = std::move(steady);
}

double StartTimes::of(const Task &task) const {
  if (!period)
    return times.at(task);
  Task first = inFirstPeriod(task);
  return times.at(first) + rhythm * static_cast<double>(task.microbatch - first.microbatch);
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

std::vector<Placed> transfersOf(int rank, const Schedule &schedule, std::span<const Edge> edges,
                                const StartTimes &times, const std::vector<Task> &tasks) {
  std::vector<Placed> placed;
  for (const Edge &edge : edges) {
    if (schedule.shareRanks(edge.fromStage, edge.toStage))
      continue;
    for (const Task &producer : tasks) {
      int from = schedule.rankOf(edge.fromStage, producer.microbatch);
      int to = schedule.rankOf(edge.toStage, producer.microbatch);
      if (!produces(producer, edge) || (from != rank && to != rank))
        continue;
      auto consumer = std::ranges::find_if(tasks, [&](const Task &task) {
        return consumes(task, edge) && task.microbatch == producer.microbatch;
      });
      if (consumer == tasks.end())
        throw Error("nothing consumes '" + edge.tensor + "' of " + toString(producer));
      Step step = from == rank ? Step{StepKind::send, producer, edge.id, to}
                               : Step{StepKind::receive, *consumer, edge.id, from};
      placed.push_back({times.endOf(producer), producer.microbatch, edge.id, step});
    }
  }
  std::sort(placed.begin(), placed.end());
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

void mergeRank(int rank, Schedule &schedule, std::span<const Edge> edges, const StartTimes &times,
               const std::vector<Task> &tasks, int64_t iterations) {
  RankRows &rows = schedule.ranks[rank];
  Merge merge(transfersOf(rank, schedule, edges, times, tasks), times);
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
                  " do not repeat with period " + std::to_string(schedule.period));
    merged.repeat = std::move(iteration);
  }
  merged.drain = merge.part(rows.drain, iterations * schedule.period, kForever);
  rows = std::move(merged);
}

} // namespace

void placeTransfersInGlobalOrder(Schedule &schedule, std::span<const Edge> edges) {
  StartTimes times(schedule, edges);
  int64_t iterations = schedule.asynchronous ? iterationsToSettle(schedule) : 0;
  std::vector<int64_t> rounds = {iterations};
  std::vector<Task> tasks;
  for (const auto &actions : unroll(schedule, rounds).ranks)
    for (const Action &action : actions)
      if (action.steps[0].kind == StepKind::run)
        tasks.push_back(action.steps[0].task);
  for (size_t rank = 0; rank < schedule.ranks.size(); ++rank)
    mergeRank(static_cast<int>(rank), schedule, edges, times, tasks, iterations);
}

} // namespace pdc
