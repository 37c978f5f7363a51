#include "compiler/schedule/Stall.h"

#include "compiler/Error.h"
#include "compiler/schedule/Grid.h"
#include "compiler/schedule/Text.h"

#include <algorithm>
#include <set>

namespace pdc {

namespace {

/// A run that has not ended, or a sum to which a rank has not come.
struct Wait {
  int rank = 0; ///< the one that should have it
  std::string what;
  bool isThere = true; ///< in the rows of that rank
};

class Waits {
public:
  Waits(const Schedule &schedule, std::span<const Edge> edges, const Timeline &timeline,
        int64_t iterations)
      : schedule(schedule), edges(edges), split(findSplitStages(schedule)),
        next(timeline.stall->next) {
    for (const Event &event : timeline.events)
      if (event.kind == StepKind::run)
        ended.insert(event.task);
    const std::vector<int64_t> rounds = {iterations};
    for (const auto &actions : unroll(schedule, rounds).ranks)
      for (const Action &action : actions)
        if (action.steps[0].kind == StepKind::run)
          inRows.insert(action.steps[0].task);
  }

  bool hasEnded(int rank) const { return !next[rank]; }
  const Step &stepOf(int rank) const { return *next[rank]; }

  Wait of(int rank) const {
    const Step &step = stepOf(rank);
    return step.kind == StepKind::run ? ofRun(step.task) : ofSum(rank, step);
  }

private:
  Wait ofRun(const Task &task) const {
    Task missing{task.stage, Phase::forward, task.microbatch};
    for (const Edge &edge : edges) {
      if (!consumes(task, edge))
        continue;
      bool isHalf = edge.producer == Phase::backward && split[edge.fromStage];
      Task producer{edge.fromStage, isHalf ? Phase::backwardInput : edge.producer, task.microbatch};
      if (!ended.contains(producer))
        missing = producer;
    }
    return {schedule.rankOf(missing.stage, missing.microbatch), toString(missing),
            inRows.contains(missing)};
  }

  Wait ofSum(int rank, const Step &step) const {
    int missing = rank;
    for (int other = 0; other < static_cast<int>(next.size()); ++other)
      if (step.kind == StepKind::allReduce ||
          std::ranges::count(schedule.ranksOfStage[step.task.stage], other))
        if (hasEnded(other) || stepOf(other).kind != step.kind ||
            (step.kind == StepKind::reduceGradients && stepOf(other).task.stage != step.task.stage))
          missing = other;
    return {missing, toString(step), !hasEnded(missing)};
  }

  const Schedule &schedule;
  std::span<const Edge> edges;
  std::vector<bool> split;
  const std::vector<std::optional<Step>> &next;
  std::set<Task> ended, inRows;
};

/// A rank of the cycle of waits, or the one that waits for what is in no row.
int lastRank(const Waits &waits, int ranks) {
  int rank = 0;
  while (waits.hasEnded(rank))
    ++rank;
  for (int i = 0; i < ranks && waits.of(rank).isThere; ++i)
    rank = waits.of(rank).rank;
  return rank;
}

struct StalledPlay {
  int64_t iterations = 0;
  Timeline timeline;
};

/// What waits in a drain has other numbers in a longer play: that of few iterations shows it beside
/// the beginning.
StalledPlay playToStall(const Schedule &schedule, std::span<const Edge> edges, int64_t most) {
  for (int64_t iterations = schedule.asynchronous ? 0 : 1;;
       iterations = std::min(most, std::max<int64_t>(1, 2 * iterations))) {
    Timeline timeline =
        play(schedule, edges, unitCosts(schedule), TransferModel::overlapped, iterations);
    if (timeline.stall || iterations == most)
      return {iterations, std::move(timeline)};
  }
}

} // namespace

void refuseStall(const Schedule &schedule, std::span<const Edge> edges, int64_t most) {
  const auto [iterations, timeline] = playToStall(schedule, edges, most);
  Waits waits(schedule, edges, timeline, iterations);
  const int rank = lastRank(waits, static_cast<int>(schedule.ranks.size()));
  std::string text;
  Wait wait{rank, "", true};
  do {
    const int at = wait.rank;
    wait = waits.of(at);
    text += (text.empty() ? "" : "; ") + ("rank " + std::to_string(at)) + " at " +
            toString(waits.stepOf(at)) + " waits for " + wait.what + " of rank " +
            std::to_string(wait.rank) + (wait.isThere ? "" : ", which has no such step left");
  } while (wait.isThere && wait.rank != rank);
  const Step &step = waits.stepOf(rank);
  std::optional<Mark> mark;
  if (step.kind == StepKind::run)
    mark = Mark{rank, step.task};
  throw Error("schedule " + schedule.name + " stands still: " + text + "\n" +
              drawGrid(schedule, edges, iterations, mark));
}

} // namespace pdc
