#include "compiler/plan/HierarchyPlan.h"

#include "compiler/Error.h"
#include "compiler/plan/Baselines.h"
#include "compiler/plan/Bounds.h"
#include "compiler/plan/Hierarchy.h"
#include "compiler/plan/Partition.h"
#include "compiler/plan/Planner.h"
#include "compiler/schedule/Schedules.h"

#include <algorithm>

namespace pdc {

namespace {

/// A row is not worth the reader's time beyond so many ranks.
constexpr int kMostRanksWithRows = 64;
/// What a change gains may be told from fewer cuts.
constexpr double kEffortOfHints = 0.1;

/// Where the stages of a hierarchy stand.
struct Placement {
  const Topology &topology;
  std::vector<std::vector<int>> ranks; ///< by stage

  /// `starts`: the first rank of each component that runs these groups.
  void place(const std::vector<StageGroup> &groups, size_t level, const std::vector<int> &starts) {
    int below = 1;
    for (size_t i = 0; i < level; ++i)
      below *= topology.levels[i].workers;
    int used = 0;
    for (const StageGroup &group : groups) {
      std::vector<int> own;
      for (int start : starts)
        for (int replica = 0; replica < group.replicas; ++replica)
          own.push_back(start + (used + replica) * below);
      used += group.replicas;
      if (level) {
        place(group.groups, level - 1, own);
        continue;
      }
      ranks.push_back(own);
    }
  }
};

void checkRequest(const PlanRequest &request) {
  if (!request.assignment.empty() || !request.replicas.empty())
    throw Error("stages: " + request.costModel +
                " plans the stages itself; give stages by hand with --cost-model overlap");
  if (request.schedule != "auto" && request.schedule != "pipedream")
    throw Error("schedule " + request.schedule + ": " + request.costModel +
                " speaks of the pipedream schedule; use --cost-model overlap");
}

/// What stages hold as the closed forms count it, apart from the minibatches in flight: of each a
/// version of the weights, the kept activations and, both ways, what crosses its two cuts.
std::vector<StageMemory> sumHeld(const PlanGraph &graph, const std::vector<int> &stageOfUnit) {
  std::vector<StageMemory> held = sharedMemory(graph, stageOfUnit);
  for (size_t i = 0; i < graph.units.size(); ++i) {
    const PlanUnit &unit = graph.units[i];
    StageMemory &stage = held[stageOfUnit[i]];
    stage.weights += unit.parameterBytes;
    stage.fixed += unit.fixedBytes();
    stage.stash += unit.stashBytes;
    stage.workspace = std::max(stage.workspace, unit.workspaceBytes);
  }
  for (const PlanValue &value : graph.values) {
    int first = stageOfUnit[value.producer], last = first;
    for (int consumer : value.consumers)
      last = std::max(last, stageOfUnit[consumer]);
    for (int stage = first; stage < last; ++stage) {
      held[stage].slot += 2 * value.bytes;
      held[stage + 1].slot += 2 * value.bytes;
    }
  }
  return held;
}

void addDepths(Plan &plan, const std::vector<StageMemory> &held) {
  double behind = 0;
  for (size_t i = plan.stages.size(); i-- > 0;) {
    PlanStage &stage = plan.stages[i];
    int64_t flight = static_cast<int64_t>(inFlight(behind, stage.replicas));
    behind += stage.replicas;
    stage.inFlight = stage.weightVersions = static_cast<int>(flight);
    stage.memoryBytes = held[i].total({flight, flight}, false);
    stage.slotBytes = held[i].weights + held[i].slot + held[i].stash;
  }
}

} // namespace

Schedule steadySchedule(const Plan &plan) {
  Schedule schedule;
  schedule.name = plan.scheduleName;
  schedule.asynchronous = true;
  for (const PlanStage &stage : plan.stages) {
    schedule.ranksOfStage.push_back(stage.ranks);
    schedule.slots.push_back(stage.inFlight);
    schedule.versions.push_back(stage.weightVersions);
  }
  return schedule;
}

static HierarchyRequest searchOf(const PlanRequest &request, const Topology &topology) {
  return {request.costModel, topology, request.straight, request.compression,
          request.memoryBytes ? request.memoryBytes : topology.memoryBytes};
}

double hierarchySeconds(const PlanGraph &graph, const PlanRequest &request) {
  checkRequest(request);
  HierarchyRequest search = searchOf(request, planHead(request).topology);
  search.effort = kEffortOfHints;
  return findHierarchy(graph, search).slowestSeconds;
}

std::vector<int> fillHierarchyPlan(Plan &plan, const PlanGraph &graph, const PlanRequest &request) {
  checkRequest(request);
  HierarchyRequest search = searchOf(request, plan.topology);
  if (request.memoryBytes) {
    plan.topology.memoryBytes = request.memoryBytes;
    plan.topology.memoryOfWorker.clear();
  }
  Partition partition = findHierarchy(graph, search);
  Placement placement{plan.topology, {}};
  placement.place(partition.groups, plan.topology.levels.size() - 1, {0});
  std::vector<int> stages = stageOfUnit(partition, graph.units.size());

  plan.scheduleName = "pipedream";
  plan.microbatches = 1;
  plan.minibatch = plan.microbatchSize;
  plan.edges = findEdges(graph, stages);
  plan.stages = makeStages(graph, stages, plan.edges);
  double work = 0;
  for (PlanStage &stage : plan.stages) {
    stage.ranks = placement.ranks[stage.id];
    stage.replicas = static_cast<int>(stage.ranks.size());
    work += stage.forwardSeconds + stage.backwardSeconds + stage.updateSeconds;
  }
  std::vector<StageMemory> held = sumHeld(graph, stages);
  addDepths(plan, held);
  int workers = plan.topology.workers();
  bool rows = static_cast<int>(plan.stages.size()) == workers && workers <= kMostRanksWithRows;
  plan.schedule = rows ? completeSchedule(pipedream(straightPipeline(workers, 1)), plan.edges)
                       : steadySchedule(plan);
  plan.secondsPerMinibatch = partition.slowestSeconds;
  plan.singleDeviceSecondsPerMinibatch = work;
  plan.boundSecondsPerMinibatch = work / workers;
  plan.dataParallelSecondsPerMinibatch = dataParallelSeconds(graph, search);
  plan.modelParallelSecondsPerMinibatch = modelParallelSeconds(plan, work);
  plan.bounds = findBounds(plan);
  // What crosses compressed is not what edges say.
  if (request.compression != 1)
    plan.bounds.links = 0;
  std::vector<int> one(graph.units.size(), 0);
  plan.baselines = findBaselines(
      plan, {{held, {}}, sumHeld(graph, one)[0], {RecomputeChoice::none, {}}, search.memoryBytes});
  return stages;
}

void addRows(Plan &plan, const PlanGraph &graph, const PlanRequest &request,
             std::vector<int> stageOfUnit) {
  Pipeline pipeline{static_cast<int>(plan.stages.size()), {}, 1, request.verticalSync};
  for (const PlanStage &stage : plan.stages)
    pipeline.ranksOfStage.push_back(stage.ranks);
  Planner planner(graph, request);
  Plan played =
      planner.complete(planner.makeWith(std::move(stageOfUnit), pipedream(pipeline))).plan;
  plan.schedule = std::move(played.schedule);
  plan.stages = std::move(played.stages);
  plan.minibatch = played.minibatch;
}

} // namespace pdc
