#include "compiler/schedule/Transfers.h"

#include "compiler/schedule/Proof.h"

#include <algorithm>
#include <tuple>

namespace pdc {

namespace {

bool crosses(const Schedule &schedule, const Edge &edge) {
  return !schedule.shareRanks(edge.fromStage, edge.toStage);
}

bool hasTransfers(const Schedule &schedule) {
  return std::ranges::any_of(schedule.ranks, [&](const RankRows &rows) {
    return std::ranges::any_of(rows.warmUp, isTransfer) ||
           std::ranges::any_of(rows.repeat, isTransfer) ||
           std::ranges::any_of(rows.drain, isTransfer);
  });
}

/// Sends behind their producer, receives before their consumer.
std::vector<Step> withTransfers(const Schedule &schedule, const std::vector<Step> &rows,
                                const StageEdges &edges) {
  std::vector<Step> result;
  for (const Step &step : rows) {
    if (step.kind != StepKind::run) {
      result.push_back(step);
      continue;
    }
    for (const Edge *edge : transfersAtRun(schedule, edges, step.task, false))
      result.push_back({StepKind::receive, step.task, edge->id,
                        schedule.rankOf(edge->fromStage, step.task.microbatch)});
    result.push_back(step);
    for (const Edge *edge : transfersAtRun(schedule, edges, step.task, true))
      result.push_back({StepKind::send, step.task, edge->id,
                        schedule.rankOf(edge->toStage, step.task.microbatch)});
  }
  return result;
}

} // namespace

void removeTransfers(Schedule &schedule) {
  for (RankRows &rows : schedule.ranks)
    for (std::vector<Step> *part : {&rows.warmUp, &rows.repeat, &rows.drain})
      std::erase_if(*part, isTransfer);
}

std::vector<const Edge *> transfersAtRun(const Schedule &schedule, const StageEdges &edges,
                                         const Task &task, bool sent) {
  std::vector<const Edge *> found;
  for (const Edge *edge : sent ? edges.leaving(task.stage) : edges.entering(task.stage))
    if ((sent ? produces(task, *edge) : consumes(task, *edge)) && crosses(schedule, *edge))
      found.push_back(edge);
  int Edge::*otherStage = sent ? &Edge::toStage : &Edge::fromStage;
  bool descends = task.phase != Phase::forward;
  std::ranges::stable_sort(found, [&](const Edge *a, const Edge *b) {
    return descends ? b->*otherStage < a->*otherStage : a->*otherStage < b->*otherStage;
  });
  return found;
}

void placeTransfersAtRuns(Schedule &schedule, std::span<const Edge> edges) {
  StageEdges ofStages(edges, schedule.stages());
  for (RankRows &rows : schedule.ranks)
    for (std::vector<Step> *part : {&rows.warmUp, &rows.repeat, &rows.drain})
      *part = withTransfers(schedule, *part, ofStages);
}

namespace {

/// A step of an evaluation with its place in the one order that all ranks follow: that of
/// microbatches, of the stages that run or send, and of those that are sent to (-1: the run
/// itself).
struct PlacedStep {
  int64_t microbatch = 0;
  int stage = 0, receiver = -1, edge = -1;
  Step step;

  bool operator<(const PlacedStep &other) const {
    return std::tie(microbatch, stage, receiver, edge) <
           std::tie(other.microbatch, other.stage, other.receiver, other.edge);
  }
};

} // namespace

void placeTransfersOfEvaluation(Schedule &schedule, std::span<const Edge> edges) {
  StageEdges ofStages(edges, schedule.stages());
  std::vector<std::vector<PlacedStep>> placed(schedule.ranks.size());
  for (size_t rank = 0; rank < schedule.ranks.size(); ++rank)
    for (const Step &step : schedule.ranks[rank].repeat) {
      const Task &task = step.task;
      placed[rank].push_back({task.microbatch, task.stage, -1, -1, step});
      for (const Edge *edge : ofStages.leaving(task.stage)) {
        if (!crosses(schedule, *edge))
          continue;
        int to = schedule.rankOf(edge->toStage, task.microbatch);
        Task consumer{edge->toStage, task.phase, task.microbatch};
        placed[rank].push_back({task.microbatch,
                                task.stage,
                                edge->toStage,
                                edge->id,
                                {StepKind::send, task, edge->id, to}});
        placed[to].push_back({task.microbatch,
                              task.stage,
                              edge->toStage,
                              edge->id,
                              {StepKind::receive, consumer, edge->id, static_cast<int>(rank)}});
      }
    }
  for (size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    std::ranges::sort(placed[rank], std::less<>());
    std::vector<Step> &rows = schedule.ranks[rank].repeat;
    rows.clear();
    for (const PlacedStep &one : placed[rank])
      rows.push_back(one.step);
  }
}

void placeTransfers(Schedule &schedule, std::span<const Edge> edges) {
  checkEdges(schedule, edges);
  checkRows(schedule, edges);
  if (hasTransfers(schedule))
    return;
  Schedule atRuns = schedule;
  placeTransfersAtRuns(atRuns, edges);
  if (!findDeadlock(atRuns))
    schedule = std::move(atRuns);
  else
    placeTransfersInGlobalOrder(schedule, edges);
}

} // namespace pdc
