#include "compiler/schedule/Rows.h"

#include "compiler/Error.h"
#include "compiler/schedule/Schedules.h"

#include <algorithm>

namespace pdc {

static void append(std::vector<Action> &actions, const std::vector<Step> &rows, int64_t shift) {
  bool open = false;
  for (Step step : rows) {
    step.task.microbatch += shift;
    if (open && isTransfer(step))
      actions.back().steps.push_back(step);
    else
      actions.push_back({{step}});
    open = isTransfer(step);
  }
}

static int64_t countEntries(const std::vector<Step> &rows, int stage) {
  int64_t count = 0;
  for (const Step &step : rows)
    count += step.kind == StepKind::run && step.task.stage == stage &&
             (step.task.phase == Phase::forward || step.task.phase == Phase::evaluate);
  return count;
}

int64_t microbatchesOfRound(const Schedule &schedule, int64_t iterations) {
  if (!schedule.asynchronous)
    return schedule.microbatches;
  int64_t count = 0;
  for (int rank : schedule.ranksOfStage[0]) {
    const RankRows &rows = schedule.ranks[rank];
    count += countEntries(rows.warmUp, 0) + iterations * countEntries(rows.repeat, 0) +
             countEntries(rows.drain, 0);
  }
  return count;
}

UnrolledRows unroll(const Schedule &schedule, std::span<const int64_t> iterations) {
  UnrolledRows result;
  size_t ranks = schedule.ranks.size();
  result.ranksOfStage = schedule.ranksOfStage;
  result.ranks.resize(ranks);
  result.repeatStart.resize(ranks);
  result.drainStart.resize(ranks);
  for (int64_t count : iterations) {
    for (size_t rank = 0; rank < ranks; ++rank) {
      std::vector<Action> &actions = result.ranks[rank];
      append(actions, schedule.ranks[rank].warmUp, result.microbatches);
      result.repeatStart[rank] = actions.size();
      for (int64_t i = 0; i < count; ++i)
        append(actions, schedule.ranks[rank].repeat, result.microbatches + i * schedule.period);
      result.drainStart[rank] = actions.size();
      append(actions, schedule.ranks[rank].drain, result.microbatches + count * schedule.period);
    }
    result.microbatches += microbatchesOfRound(schedule, count);
  }
  return result;
}

bool isEnd(Phase end, const Task &task) {
  return end == task.phase || (end == Phase::backward && task.phase == Phase::backwardInput);
}

std::vector<bool> findSplitStages(const Schedule &schedule) {
  std::vector<bool> split(schedule.stages());
  if (schedule.ranks.empty())
    for (const ScheduleKind &kind : schedules())
      if (kind.name == schedule.name)
        split.assign(split.size(), splitsBackward(kind));
  for (const RankRows &rows : schedule.ranks)
    for (const std::vector<Step> *part : {&rows.warmUp, &rows.repeat, &rows.drain})
      for (const Step &step : *part)
        if (step.kind == StepKind::run &&
            (step.task.phase == Phase::backwardInput || step.task.phase == Phase::backwardWeight))
          split[step.task.stage] = true;
  return split;
}

bool splitsBackward(const Schedule &schedule) {
  std::vector<bool> split = findSplitStages(schedule);
  return std::ranges::find(split, true) != split.end();
}

std::vector<Edge> chainEdges(int stages) {
  std::vector<Edge> edges;
  for (int stage = 0; stage + 1 < stages; ++stage) {
    std::string name = "x" + std::to_string(stage);
    int id = static_cast<int>(edges.size());
    edges.push_back({id, name, stage, stage + 1, Phase::forward, Phase::forward, 0});
    edges.push_back(
        {id + 1, name + "/grad", stage + 1, stage, Phase::backward, Phase::backward, 0});
  }
  return edges;
}

void checkEdges(const Schedule &schedule, std::span<const Edge> edges) {
  int stages = schedule.stages();
  for (size_t i = 0; i < edges.size(); ++i) {
    const Edge &edge = edges[i];
    if (edge.id != static_cast<int>(i))
      throw Error("edge '" + edge.tensor + "' has id " + std::to_string(edge.id) +
                  ", expected its position " + std::to_string(i));
    for (int stage : {edge.fromStage, edge.toStage})
      if (stage < 0 || stage >= stages)
        throw Error("edge '" + edge.tensor + "' names stage " + std::to_string(stage) +
                    ", expected 0 to " + std::to_string(stages - 1));
    if (edge.fromStage == edge.toStage)
      throw Error("edge '" + edge.tensor + "' does not leave stage " +
                  std::to_string(edge.fromStage));
  }
}

} // namespace pdc
