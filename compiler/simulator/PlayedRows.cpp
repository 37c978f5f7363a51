#include "compiler/simulator/PlayedRows.h"

#include <map>

#include "compiler/Error.h"
#include "compiler/cost/ClosedForm.h"
#include "compiler/schedule/Replicas.h"
#include "compiler/schedule/Rhythm.h"
#include "compiler/schedule/Schedules.h"
#include "compiler/schedule/Text.h"

#include <algorithm>
#include <set>

namespace pdc {

static int countRanks(const Plan &plan) {
  int ranks = 0;
  for (const PlanStage &stage : plan.stages)
    for (int rank : stage.ranks)
      ranks = std::max(ranks, rank + 1);
  return ranks;
}

/// By stage, on a replica: the closed forms choose them, elsewhere the schedule does.
static std::vector<int> inFlightOf(const Plan &plan) {
  if (!isClosedForm(plan.costModel))
    return unwrittenPeaks(plan.schedule);
  std::vector<int> inFlight;
  for (const PlanStage &stage : plan.stages)
    inFlight.push_back(static_cast<int>(stage.inFlight));
  return inFlight;
}

/// The runs of each rank of an asynchronous plan without rows, whose stages may have replicas:
/// 1F1B-RR with so many microbatches in flight, an update after each backward pass that sums
/// enough.
static std::vector<std::vector<Step>> replicatedRows(const Plan &plan, int64_t microbatches) {
  std::vector<std::vector<Step>> rows(countRanks(plan));
  const std::vector<int> inFlight = inFlightOf(plan);
  for (const PlanStage &stage : plan.stages)
    for (int replica = 0; replica < stage.replicas; ++replica) {
      std::vector<Step> &own = rows[stage.ranks[replica]];
      int64_t count = (microbatches - replica + stage.replicas - 1) / stage.replicas;
      int64_t warmUp = inFlight[stage.id] - 1;
      auto run = [&](Phase phase, int64_t number) {
        own.push_back(
            {StepKind::run, {stage.id, phase, replica + number * stage.replicas}, -1, -1});
      };
      for (int64_t i = 0; i < count + warmUp; ++i) {
        if (i < count)
          run(Phase::forward, i);
        if (i < warmUp)
          continue;
        run(Phase::backward, i - warmUp);
        int64_t last = (i - warmUp + 1) * stage.replicas - 1;
        if (last >= microbatches || (last + 1) % microbatchesPerUpdate(plan.schedule, stage.id))
          continue; // not all replicas have a part, or the update sums more
        if (stage.replicas > 1)
          own.push_back({StepKind::reduceGradients, {stage.id, Phase::update, last}, -1, -1});
        own.push_back({StepKind::run, {stage.id, Phase::update, last}, -1, -1});
      }
    }
  return rows;
}

/// The rounds in which programs take so many microbatches: of an asynchronous schedule one, of the
/// fewest repetitions.
static std::vector<int64_t> roundsOf(const Schedule &schedule, int64_t microbatches) {
  if (!schedule.asynchronous)
    return std::vector<int64_t>((microbatches + schedule.microbatches - 1) / schedule.microbatches);
  const int64_t outside = microbatchesOfRound(schedule, 0), period = schedule.period;
  return {std::max<int64_t>(0, (microbatches - outside + period - 1) / period)};
}

static PlayedRows withoutTransfers(const UnrolledRows &unrolled) {
  PlayedRows played;
  played.microbatches = unrolled.microbatches;
  played.ranks.resize(unrolled.ranks.size());
  for (size_t rank = 0; rank < played.ranks.size(); ++rank)
    for (const Action &action : unrolled.ranks[rank])
      if (!action.transfers())
        played.ranks[rank].push_back(action.steps[0]);
  return played;
}

static Schedule writtenSchedule(const Schedule &planned) {
  if (!planned.ranks.empty())
    return planned;
  return findSchedule(planned.name)
      .make({planned.stages(), planned.ranksOfStage, planned.microbatches,
             planned.weightRule == WeightRule::atEntry});
}

PlayedRows rowsToPlay(const Plan &plan, int64_t iterations) {
  const Schedule &planned = plan.schedule;
  if (planned.ranks.empty() && planned.asynchronous)
    return {replicatedRows(plan, iterations), iterations};
  int64_t period = std::max<int64_t>(1, planned.period);
  std::vector<int64_t> rounds = {(iterations + period - 1) / period};
  if (!planned.asynchronous)
    rounds.assign(static_cast<size_t>(iterations), 0);
  return withoutTransfers(unroll(writtenSchedule(planned), rounds));
}

/// Whether a rank came to a row: a sum over replicas is of the update that it stands in front of,
/// one over all ranks of a minibatch.
static bool isOfRun(const Step &step, const std::set<Task> &ran) {
  return step.kind == StepKind::allReduce || ran.contains(step.task);
}

/// The rows are those of the tasks that were measured.
static void checkOrder(size_t rank, const std::vector<Step> &rows,
                       const std::vector<TaskTime> &measured) {
  std::vector<Task> planned;
  for (const Step &step : rows)
    if (step.kind == StepKind::run)
      planned.push_back(step.task);
  auto [due, ran] = std::ranges::mismatch(planned, measured, {}, {}, &TaskTime::task);
  if (ran != measured.end())
    throw Error("rank " + std::to_string(rank) + " ran " + toString(ran->task) +
                " where the plan has " + (due == planned.end() ? "no task more" : toString(*due)));
}

PlayedRows rowsOfRun(const Plan &plan, const TaskTimes &measured) {
  int64_t microbatches = 0;
  for (const std::vector<TaskTime> &rank : measured)
    for (const TaskTime &time : rank)
      if (time.task.phase == Phase::forward)
        microbatches = std::max(microbatches, time.task.microbatch + 1);
  const Schedule schedule = writtenSchedule(plan.schedule);
  PlayedRows played = withoutTransfers(unroll(schedule, roundsOf(schedule, microbatches)));
  if (played.ranks.size() != measured.size())
    throw Error("the run has " + std::to_string(measured.size()) + " ranks, the plan " +
                std::to_string(played.ranks.size()));
  for (size_t rank = 0; rank < measured.size(); ++rank) {
    std::set<Task> ran;
    for (const TaskTime &time : measured[rank])
      ran.insert(time.task);
    std::erase_if(played.ranks[rank], [&](const Step &step) { return !isOfRun(step, ran); });
    checkOrder(rank, played.ranks[rank], measured[rank]);
  }
  return played;
}

std::vector<const Step *> findSumsBehind(const std::vector<Step> &rows) {
  std::vector<const Step *> sums(rows.size());
  std::map<int, size_t> last; ///< by stage, since its last sum
  for (size_t i = 0; i < rows.size(); ++i) {
    const Task &task = rows[i].task;
    bool isRun = rows[i].kind == StepKind::run;
    if (isRun && (task.phase == Phase::backward || task.phase == Phase::backwardWeight))
      last[task.stage] = i;
    if (rows[i].kind != StepKind::reduceGradients || !last.contains(task.stage))
      continue;
    sums[last[task.stage]] = &rows[i];
    last.erase(task.stage);
  }
  return sums;
}

} // namespace pdc
