#include "compiler/schedule/RunCounts.h"

#include "compiler/Error.h"
#include "compiler/schedule/Grid.h"
#include "compiler/schedule/Proof.h"
#include "compiler/schedule/Replicas.h"

#include <algorithm>
#include <map>

namespace pdc {

using Counts = std::map<Phase, int64_t>;

static std::vector<Counts> countRuns(const Schedule &schedule, const UnrolledRows &rows) {
  std::vector<Counts> runs(schedule.stages());
  for (const auto &actions : rows.ranks)
    for (const Action &action : actions)
      if (action.steps[0].kind == StepKind::run)
        ++runs[action.steps[0].task.stage][action.steps[0].task.phase];
  return runs;
}

/// What a stage has to run.
static Counts dueRuns(const Schedule &schedule, int stage, bool evaluates, bool split,
                      int64_t microbatches) {
  if (evaluates)
    return {{Phase::evaluate, microbatches}};
  int64_t updates = microbatches / microbatchesPerUpdate(schedule, stage);
  return {{Phase::forward, microbatches},
          {Phase::backward, split ? 0 : microbatches},
          {Phase::backwardInput, split ? microbatches : 0},
          {Phase::backwardWeight, split ? microbatches : 0},
          {Phase::update, updates * schedule.replicas(stage)}};
}

void checkRunCounts(const Schedule &schedule, std::span<const Edge> edges, const UnrolledRows &rows,
                    int64_t drawnIterations) {
  std::vector<Counts> runs = countRuns(schedule, rows);
  std::vector<bool> split = findSplitStages(schedule);
  for (int stage = 0; stage < schedule.stages(); ++stage)
    for (auto [phase, count] : dueRuns(schedule, stage, runs[stage].contains(Phase::evaluate),
                                       split[stage], rows.microbatches))
      if (runs[stage][phase] != count)
        throw Error("schedule " + schedule.name + ": phase " + letter(phase) + " of stage " +
                    std::to_string(stage) + " runs " + std::to_string(runs[stage][phase]) +
                    " times for " + std::to_string(rows.microbatches) + " microbatches, expected " +
                    std::to_string(count) + "\n" + drawGrid(schedule, edges, drawnIterations));
}

static void checkRunsOnce(const Schedule &schedule, std::span<const Edge> edges,
                          const UnrolledRows &rows, int64_t drawnIterations) {
  for (int rank = 0; rank < static_cast<int>(rows.ranks.size()); ++rank) {
    std::vector<Task> tasks;
    for (const Action &action : rows.ranks[rank])
      if (action.steps[0].kind == StepKind::run)
        tasks.push_back(action.steps[0].task);
    std::ranges::sort(tasks);
    if (auto twice = std::ranges::adjacent_find(tasks); twice != tasks.end())
      throw Error("schedule " + schedule.name + ": rank " + std::to_string(rank) + " runs " +
                  toString(*twice) + " twice\n" +
                  drawGrid(schedule, edges, drawnIterations, Mark{rank, *twice}));
  }
}

void checkRowsOfFile(const Schedule &schedule, std::span<const Edge> edges) {
  checkRows(schedule, edges);
  const int64_t drawn = iterationsToDraw(schedule);
  // Rows may run ahead of their own iteration by as many others as there are stages.
  const std::vector<int64_t> rounds = {schedule.asynchronous ? schedule.stages() + 2 : 1};
  const UnrolledRows rows = unroll(schedule, rounds);
  checkRunsOnce(schedule, edges, rows, drawn);
  checkRunCounts(schedule, edges, rows, drawn);
}

} // namespace pdc
