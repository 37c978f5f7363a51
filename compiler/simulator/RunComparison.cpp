#include "compiler/simulator/RunComparison.h"

#include "compiler/simulator/PlanSimulation.h"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

namespace pdc {

namespace {

double median(std::vector<double> values) {
  if (values.empty())
    return 0;
  const auto middle = values.begin() + static_cast<int64_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

/// Some tasks of all ranks together.
struct Stretch {
  double first = std::numeric_limits<double>::infinity(), last = 0, busy = 0;

  void add(const TaskTime &time) {
    first = std::min(first, time.start);
    last = std::max(last, time.end);
    busy += time.seconds();
  }
  double idle(size_t ranks) const {
    return 1 - busy / (static_cast<double>(ranks) * (last - first));
  }
};

/// Seconds from the end of the minibatch before it, or of the first from its own beginning.
std::vector<Pace> pacesOf(const TaskTimes &times, int64_t microbatches) {
  std::map<int64_t, Stretch> minibatches;
  for (const std::vector<TaskTime> &rank : times)
    for (const TaskTime &time : rank)
      minibatches[time.task.microbatch / microbatches].add(time);
  std::vector<Pace> paces;
  const Stretch *before = nullptr;
  for (const auto &[number, minibatch] : minibatches) {
    paces.push_back(
        {minibatch.last - (before ? before->last : minibatch.first), minibatch.idle(times.size())});
    before = &minibatch;
  }
  return paces;
}

Pace medianOf(const std::vector<Pace> &paces) {
  std::vector<double> seconds, idle;
  for (const Pace &pace : paces) {
    seconds.push_back(pace.secondsPerMinibatch);
    idle.push_back(pace.idle);
  }
  return {median(seconds), median(idle)};
}

/// From the first update of the first stage to its last.
Pace asynchronousPace(const TaskTimes &times, const Schedule &schedule) {
  Stretch all;
  for (const std::vector<TaskTime> &rank : times)
    for (const TaskTime &time : rank)
      all.add(time);
  std::vector<TaskTime> updates;
  for (const TaskTime &time : times[schedule.ranksOfStage[0][0]])
    if (time.task.phase == Phase::update)
      updates.push_back(time);
  if (updates.size() < 2)
    return {all.last - all.first, all.idle(times.size())};
  const auto moved =
      static_cast<double>(updates.back().task.microbatch - updates.front().task.microbatch);
  return {(updates.back().end - updates.front().end) / moved *
              static_cast<double>(schedule.microbatches),
          all.idle(times.size())};
}

TaskTimes timesOf(const PlanSimulation &simulation) {
  TaskTimes times(simulation.busySeconds.size());
  for (const Event &event : simulation.events)
    if (event.kind == StepKind::run)
      times[event.rank].push_back({event.task, event.start, event.end});
  return times;
}

std::vector<PhaseSeconds> comparePhases(const TaskTimes &planned, const TaskTimes &measured) {
  using Key = std::tuple<int, int, Phase>;
  std::map<Key, std::vector<double>> plannedSeconds, measuredSeconds;
  for (auto [times, seconds] :
       {std::pair(&planned, &plannedSeconds), std::pair(&measured, &measuredSeconds)})
    for (size_t rank = 0; rank < times->size(); ++rank)
      for (const TaskTime &time : (*times)[rank])
        (*seconds)[{static_cast<int>(rank), time.task.stage, time.task.phase}].push_back(
            time.seconds());
  std::vector<PhaseSeconds> phases;
  for (auto &[key, seconds] : measuredSeconds) {
    auto [rank, stage, phase] = key;
    phases.push_back({rank, stage, phase, median(plannedSeconds[key]), median(seconds)});
  }
  return phases;
}

} // namespace

RunComparison compareRun(const Plan &plan, const TaskTimes &measured) {
  const PlayedRows rows = rowsOfRun(plan, measured);
  const TaskTimes planned = timesOf(simulate(plan, rows));
  RunComparison comparison;
  comparison.minibatches =
      (rows.microbatches + plan.schedule.microbatches - 1) / plan.schedule.microbatches;
  const TaskTimes played = timesOf(simulate(plan, rows, measured));
  if (plan.schedule.asynchronous) {
    comparison.planned = asynchronousPace(planned, plan.schedule);
    comparison.played = asynchronousPace(played, plan.schedule);
    comparison.measured = asynchronousPace(measured, plan.schedule);
  } else {
    comparison.playedEach = pacesOf(played, plan.schedule.microbatches);
    comparison.measuredEach = pacesOf(measured, plan.schedule.microbatches);
    comparison.planned = medianOf(pacesOf(planned, plan.schedule.microbatches));
    comparison.played = medianOf(comparison.playedEach);
    comparison.measured = medianOf(comparison.measuredEach);
  }
  comparison.phases = comparePhases(planned, measured);
  return comparison;
}

} // namespace pdc
