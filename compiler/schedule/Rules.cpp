#include "compiler/Error.h"
#include "compiler/schedule/Grid.h"
#include "compiler/schedule/Proof.h"
#include "compiler/schedule/Replicas.h"
#include "compiler/schedule/Text.h"

#include <algorithm>

namespace pdc {

namespace {

class RowRules {
public:
  RowRules(const Schedule &schedule, std::span<const Edge> edges)
      : schedule(schedule), edges(edges), hasRun(schedule.stages()) {}

  void check();

private:
  [[noreturn]] void refuse(const std::string &text) const {
    throw Error("schedule " + schedule.name + ": " + text);
  }
  [[noreturn]] void refuse(int rank, const Step &step, const std::string &text) const {
    refuse("rank " + std::to_string(rank) + ", step " + toString(step) + ": " + text + "\n" +
           drawRow(schedule, rank, step));
  }
  void checkShape() const;
  void checkEqualReplicas() const;
  void checkSums() const;
  void checkWeightRule() const;
  void checkStep(int rank, const Step &step);
  void checkTask(int rank, const Step &step) const;
  void checkPlace(int rank, const Step &step) const;
  void checkPlacement() const;
  void checkPeriod() const;
  void checkTransfer(int rank, const Step &step) const;

  const Schedule &schedule;
  std::span<const Edge> edges;
  std::vector<bool> hasRun;
};

void RowRules::checkPlacement() const {
  for (int stage = 0; stage < schedule.stages(); ++stage) {
    const std::vector<int> &own = schedule.ranksOfStage[stage];
    for (int rank : own) {
      if (std::ranges::count(own, rank) > 1)
        refuse("stage " + std::to_string(stage) + " stands on rank " + std::to_string(rank) +
               " twice");
      for (int other = 0; other < stage; ++other)
        if (!schedule.shareRanks(stage, other) && replicaOn(schedule, other, rank) >= 0)
          refuse("stages " + std::to_string(other) + " and " + std::to_string(stage) +
                 " share rank " + std::to_string(rank) +
                 ", expected that they share all of their ranks or none");
    }
  }
}

/// Each stage takes the microbatches of a period once per iteration; an evaluation's rows are as
/// long.
void RowRules::checkPeriod() const {
  auto repeats = [](const RankRows &rows) { return !rows.repeat.empty(); };
  if (std::ranges::none_of(schedule.ranks, repeats)) // a recorded run is all warm-up
    return;
  std::vector<int64_t> taken(schedule.stages());
  for (const RankRows &rows : schedule.ranks)
    for (const Step &step : rows.repeat)
      taken[step.task.stage] += step.kind == StepKind::run && (step.task.phase == Phase::forward ||
                                                               step.task.phase == Phase::evaluate);
  for (size_t stage = 0; stage < taken.size(); ++stage)
    if (taken[stage] != schedule.period)
      refuse("stage " + std::to_string(stage) + " takes " + std::to_string(taken[stage]) +
             " microbatches in an iteration, expected its period, " +
             std::to_string(schedule.period));
}

void RowRules::checkShape() const {
  if (schedule.ranksOfStage.empty() || schedule.ranks.empty())
    refuse("expected at least one stage and one rank");
  for (const std::vector<int> &ranks : schedule.ranksOfStage) {
    if (ranks.empty())
      refuse("a stage has no rank");
    for (int rank : ranks)
      if (rank < 0 || rank >= static_cast<int>(schedule.ranks.size()))
        refuse("a stage is placed on rank " + std::to_string(rank) + ", but there are " +
               std::to_string(schedule.ranks.size()));
  }
  checkPlacement();
  for (const Edge &edge : edges)
    for (int stage : {edge.fromStage, edge.toStage})
      if (stage < 0 || stage >= schedule.stages())
        refuse("edge '" + edge.tensor + "' names stage " + std::to_string(stage) +
               ", but there are " + std::to_string(schedule.stages()));
  if (schedule.microbatches < 1)
    refuse("expected at least 1 microbatch, found " + std::to_string(schedule.microbatches));
  if (schedule.asynchronous && schedule.period < 1)
    refuse("expected a period of at least 1 microbatch, found " + std::to_string(schedule.period));
  for (const RankRows &rows : schedule.ranks)
    if (!schedule.asynchronous && (!rows.repeat.empty() || !rows.drain.empty()))
      refuse("a synchronous schedule neither repeats nor drains");
  checkWeightRule();
}

/// Under vertical sync an update has to mean the same at every stage: that of as many microbatches.
void RowRules::checkEqualReplicas() const {
  std::string found;
  bool equal = true;
  for (int stage = 0; stage < schedule.stages(); ++stage) {
    equal = equal && schedule.replicas(stage) == schedule.replicas(0);
    found += (stage ? "-" : "") + std::to_string(schedule.replicas(stage));
  }
  if (!equal)
    refuse("vertical sync needs as many replicas of every stage, found " + found +
           "; give all stages as many, or leave vertical sync out");
}

/// With two versions the microbatches in flight behind an update must all belong to the next one.
void RowRules::checkSums() const {
  std::vector<int64_t> ahead = forwardsAhead(schedule.ranksOfStage, true);
  for (int stage = 0; stage < schedule.stages(); ++stage) {
    int64_t replicas = schedule.replicas(stage), least = (ahead[stage] + 1) * replicas;
    if (schedule.microbatches % replicas != 0)
      refuse("an update sums " + std::to_string(schedule.microbatches) +
             " microbatches, which the " + std::to_string(replicas) + " replicas of stage " +
             std::to_string(stage) + " cannot share equally; choose a multiple");
    if (schedule.microbatches < least)
      refuse("an update sums " + std::to_string(schedule.microbatches) +
             " microbatches, but stage " + std::to_string(stage) + " has " + std::to_string(least) +
             " in flight; expected at least as many, as in --microbatches " +
             std::to_string((least + schedule.replicas(0) - 1) / schedule.replicas(0)));
  }
}

void RowRules::checkWeightRule() const {
  if (!schedule.asynchronous && schedule.weightRule != WeightRule::stashed)
    refuse("a synchronous schedule has one version of the weights, found a rule for several");
  if (schedule.weightRule == WeightRule::atEntry)
    checkEqualReplicas();
  if (schedule.weightRule == WeightRule::previous)
    checkSums();
}

void RowRules::checkTask(int rank, const Step &step) const {
  const Task &task = step.task;
  if (task.stage < 0 || task.stage >= schedule.stages())
    refuse(rank, step, "there are " + std::to_string(schedule.stages()) + " stages");
  if (task.microbatch < 0 || (!schedule.asynchronous && task.microbatch >= schedule.microbatches))
    refuse(rank, step,
           "expected microbatches from 0 to " + std::to_string(schedule.microbatches - 1));
  checkPlace(rank, step);
}

/// Updates are of all replicas together.
void RowRules::checkPlace(int rank, const Step &step) const {
  const Task &task = step.task;
  int placed = schedule.rankOf(task.stage, task.microbatch);
  if (task.phase == Phase::update && replicaOn(schedule, task.stage, rank) >= 0)
    placed = rank;
  if (placed != rank)
    refuse(rank, step,
           "stage " + std::to_string(task.stage) + " is placed on rank " + std::to_string(placed) +
               (schedule.replicas(task.stage) > 1 ? " for this microbatch" : ""));
}

void RowRules::checkTransfer(int rank, const Step &step) const {
  if (step.edge < 0 || step.edge >= static_cast<int>(edges.size()))
    refuse(rank, step, "there are " + std::to_string(edges.size()) + " edges");
  const Edge &edge = edges[step.edge];
  bool send = step.kind == StepKind::send;
  if (send ? !produces(step.task, edge) : !consumes(step.task, edge))
    refuse(rank, step,
           "edge '" + edge.tensor + "' goes from stage " + std::to_string(edge.fromStage) +
               letter(edge.producer) + " to stage " + std::to_string(edge.toStage) +
               letter(edge.consumer));
  int peer = schedule.rankOf(send ? edge.toStage : edge.fromStage, step.task.microbatch);
  if (peer == rank)
    refuse(rank, step, "edge '" + edge.tensor + "' stays on this rank");
  if (step.peer != peer)
    refuse(rank, step, "the other end of '" + edge.tensor + "' is on rank " + std::to_string(peer));
}

void RowRules::checkStep(int rank, const Step &step) {
  if (step.kind == StepKind::allReduce) {
    if (schedule.asynchronous)
      refuse(rank, step, "an asynchronous schedule has no sum over all ranks");
    return;
  }
  checkTask(rank, step);
  if (step.kind == StepKind::reduceGradients && step.task.phase != Phase::update)
    refuse(rank, step, "replicas sum gradients for an update");
  if (step.kind == StepKind::run)
    hasRun[step.task.stage] = true;
  else if (step.kind != StepKind::reduceGradients)
    checkTransfer(rank, step);
}

void RowRules::check() {
  checkShape();
  for (int rank = 0; rank < static_cast<int>(schedule.ranks.size()); ++rank) {
    const RankRows &rows = schedule.ranks[rank];
    for (const std::vector<Step> *part : {&rows.warmUp, &rows.repeat, &rows.drain})
      for (const Step &step : *part)
        checkStep(rank, step);
  }
  for (size_t stage = 0; stage < hasRun.size(); ++stage)
    if (!hasRun[stage])
      refuse("stage " + std::to_string(stage) + " never runs");
  if (schedule.asynchronous)
    checkPeriod();
}

} // namespace

void checkRows(const Schedule &schedule, std::span<const Edge> edges) {
  RowRules(schedule, edges).check();
}

} // namespace pdc
