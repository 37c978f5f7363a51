#include "compiler/schedule/Schedules.h"

#include "compiler/Error.h"
#include "compiler/schedule/Play.h"
#include "compiler/schedule/Proof.h"
#include "compiler/schedule/Slots.h"
#include "compiler/schedule/Transfers.h"

#include <algorithm>

namespace pdc {

static constexpr ScheduleKind kinds[] = {
    {"1f1b", "one forward, one backward; the pipeline empties at each update", true, true, oneFOneB,
     StagePlacement::straight, oneFOneBRhythms, nullptr, idleOfFlush},
    {"gpipe", "all forward passes, then all backward passes, then the update", true, true, gpipe,
     StagePlacement::straight, gpipeRhythms, nullptr, idleOfFlush},
    {"zb-h1", "1f1b with weight gradients apart, in the bubble; as many activations as 1f1b", true,
     true, zeroBubbleH1, StagePlacement::straight, zeroBubbleH1Rhythms, nullptr, idleOfZeroBubble},
    {"zb-h2", "the same with up to 2p-1 activations per stage: no stage waits once it has begun",
     true, true, zeroBubbleH2, StagePlacement::straight, zeroBubbleH2Rhythms, nullptr,
     idleOfZeroBubbleH2},
    {"interleaved", "1f1b over several stages per rank, each rank's far apart: a shorter bubble",
     true, true, interleaved, StagePlacement::loop, nullptr, interleavedOrder, idleOfFlush},
    {"zb-v", "two stages per rank in a V, weight gradients apart: least idle, memory of 1f1b", true,
     true, zeroBubbleV, StagePlacement::fold, nullptr, zeroBubbleVOrder, idleOfZeroBubble},
    {"pipedream", "one forward, one backward, one update; never empties, weights stashed", false,
     false, pipedream, StagePlacement::straight, pipedreamRhythms},
    {"2bw", "pipedream with sums of microbatches: two versions at each stage, one update old",
     false, true, twoVersions, StagePlacement::straight, pipedreamRhythms},
};

std::span<const ScheduleKind> schedules() { return kinds; }

std::string scheduleNames() {
  std::string names;
  for (const ScheduleKind &kind : kinds)
    names += (names.empty() ? "" : ", ") + std::string(kind.name);
  return names;
}

const ScheduleKind &findSchedule(std::string_view name) {
  for (const ScheduleKind &kind : kinds)
    if (kind.name == name)
      return kind;
  throw Error("unknown schedule '" + std::string(name) + "'; known schedules: " + scheduleNames());
}

bool splitsBackward(const ScheduleKind &kind) {
  if (kind.rhythms)
    return kind.rhythms(straightPipeline(1, 1))[0].split;
  return kind.order && std::ranges::any_of(kind.order(placedPipeline(kind.placement, 1, 2, 1), 0),
                                           [](const OrderedRun &run) {
                                             return run.phase == Phase::backwardWeight;
                                           });
}

Schedule completeSchedule(Schedule schedule, std::span<const Edge> edges) {
  placeTransfers(schedule, edges);
  assignSlots(schedule, edges);
  assignVersions(schedule);
  proveNoDeadlock(schedule, edges);
  checkData(schedule, edges);
  return schedule;
}

static void checkPipeline(const Pipeline &pipeline) {
  if (pipeline.stages < 1)
    throw Error("a pipeline needs at least 1 stage, found " + std::to_string(pipeline.stages));
  if (pipeline.microbatches < 1)
    throw Error("a minibatch needs at least 1 microbatch, found " +
                std::to_string(pipeline.microbatches));
  if (pipeline.ranksOfStage.size() != static_cast<size_t>(pipeline.stages))
    throw Error("expected ranks for each of " + std::to_string(pipeline.stages) +
                " stages, found " + std::to_string(pipeline.ranksOfStage.size()));
  for (const std::vector<int> &ranks : pipeline.ranksOfStage) {
    if (ranks.empty())
      throw Error("a stage has no rank, expected at least 1");
    for (int rank : ranks)
      if (rank < 0)
        throw Error("the rank of a stage is negative: " + std::to_string(rank));
  }
  std::vector<bool> hasStage(pipeline.ranks());
  for (const std::vector<int> &ranks : pipeline.ranksOfStage)
    for (int rank : ranks)
      hasStage[rank] = true;
  if (auto idle = std::ranges::find(hasStage, false); idle != hasStage.end())
    throw Error("rank " + std::to_string(idle - hasStage.begin()) + " has no stage");
}

Schedule emptySchedule(std::string_view name, const Pipeline &pipeline) {
  checkPipeline(pipeline);
  Schedule schedule;
  schedule.name = name;
  schedule.microbatches = pipeline.microbatches;
  schedule.ranksOfStage = pipeline.ranksOfStage;
  schedule.ranks.resize(pipeline.ranks());
  return schedule;
}

bool sharesRanks(const Pipeline &pipeline) {
  size_t places = 0;
  for (const std::vector<int> &ranks : pipeline.ranksOfStage)
    places += ranks.size();
  return places > static_cast<size_t>(pipeline.ranks());
}

/// Replicas take turns: all of a stage's together take a second for a microbatch.
static PlayCosts equalSpeeds(const Schedule &schedule) {
  PlayCosts costs = unitCosts(schedule);
  for (int stage = 0; stage < schedule.stages(); ++stage) {
    auto replicas = static_cast<double>(schedule.replicas(stage));
    costs.stages[stage].forward *= replicas;
    costs.stages[stage].backwardInput *= replicas;
    costs.stages[stage].backwardWeight *= replicas;
  }
  return costs;
}

Schedule mergeOntoRanks(const Schedule &apart, const Pipeline &pipeline) {
  Schedule schedule = emptySchedule(apart.name, pipeline);
  if (!sharesRanks(pipeline)) {
    for (int stage = 0; stage < pipeline.stages; ++stage)
      for (size_t replica = 0; replica < pipeline.ranksOfStage[stage].size(); ++replica)
        schedule.ranks[pipeline.ranksOfStage[stage][replica]].warmUp =
            apart.ranks[apart.ranksOfStage[stage][replica]].warmUp;
    closeMinibatch(schedule, pipeline);
    return schedule;
  }
  std::vector<Edge> edges = chainEdges(pipeline.stages);
  for (const Event &event : play(apart, edges, equalSpeeds(apart)).events)
    if (event.kind == StepKind::run)
      schedule.ranks[schedule.rankOf(event.task.stage, event.task.microbatch)].warmUp.push_back(
          {StepKind::run, event.task});
  closeMinibatch(schedule, pipeline);
  return schedule;
}

Step runStep(int stage, Phase phase, int64_t microbatch) {
  return {StepKind::run, {stage, phase, microbatch}};
}

static void appendSum(std::vector<Step> &rows, const Schedule &schedule, int stage, int64_t last) {
  if (schedule.replicas(stage) > 1)
    rows.push_back({StepKind::reduceGradients, {stage, Phase::update, last}});
}

void appendUpdate(std::vector<Step> &rows, const Schedule &schedule, int stage, int64_t last) {
  appendSum(rows, schedule, stage, last);
  rows.push_back(runStep(stage, Phase::update, last));
}

/// The stages of rows by their last backward passes, with which sums over replicas can begin; those
/// without one first, the last stage before the others.
static std::vector<int> stagesAsTheyEnd(const std::vector<Step> &rows,
                                        const std::vector<int> &all) {
  std::vector<int> stages;
  for (size_t i = rows.size(); i-- > 0;) {
    Phase phase = rows[i].task.phase;
    bool isEnd = phase == Phase::backward || phase == Phase::backwardWeight;
    if (isEnd && std::ranges::find(stages, rows[i].task.stage) == stages.end())
      stages.push_back(rows[i].task.stage);
  }
  for (int stage : all)
    if (std::ranges::find(stages, stage) == stages.end())
      stages.push_back(stage);
  std::ranges::reverse(stages);
  return stages;
}

/// What a rank sums for all ranks holds its replicas' gradients already. Replicas sum their stages
/// in one order, that of the first: others may have fewer microbatches.
void closeMinibatch(Schedule &schedule, const Pipeline &pipeline) {
  int64_t last = pipeline.microbatches - 1;
  std::vector<std::vector<int>> orders(pipeline.ranks());
  for (int rank = 0; rank < pipeline.ranks(); ++rank) {
    std::vector<int> stages = pipeline.stagesOfRank(rank);
    int first = pipeline.ranksOfStage[stages[0]][0];
    orders[rank] = stagesAsTheyEnd(schedule.ranks[first].warmUp, stages);
  }
  for (int rank = 0; rank < pipeline.ranks(); ++rank) {
    auto &rows = schedule.ranks[rank].warmUp;
    std::vector<int> stages = pipeline.stagesOfRank(rank);
    for (int stage : orders[rank])
      appendSum(rows, schedule, stage, last);
    rows.push_back({.kind = StepKind::allReduce});
    for (int stage : stages)
      rows.push_back(runStep(stage, Phase::update, last));
  }
}

} // namespace pdc
