#include "compiler/plan/HierarchyPlan.h"

#include "compiler/Error.h"
#include "compiler/plan/Cut.h"
#include "compiler/plan/Hierarchy.h"
#include "compiler/plan/Partition.h"
#include "compiler/schedule/Schedules.h"

#include <algorithm>

namespace pdc {

namespace {

/// A row is not worth the reader's time beyond so many ranks.
constexpr int kMostRanksWithRows = 64;

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
  if (!request.assignment.empty())
    throw Error("stages: " + request.costModel +
                " plans the stages itself; give stages by hand with --cost-model overlap");
  if (request.schedule != "auto" && request.schedule != "pipedream")
    throw Error("schedule " + request.schedule + ": " + request.costModel +
                " speaks of the pipedream schedule; use --cost-model overlap");
}

void addDepths(Plan &plan, const PlanGraph &graph, const std::vector<int> &stageOfUnit) {
  std::vector<StageBytes> held(plan.stages.size());
  std::vector<double> crossing(plan.stages.size());
  std::vector<int64_t> workspace(plan.stages.size());
  for (size_t unit = 0; unit < graph.units.size(); ++unit) {
    held[stageOfUnit[unit]].add(graph.units[unit]);
    workspace[stageOfUnit[unit]] =
        std::max(workspace[stageOfUnit[unit]], graph.units[unit].workspaceBytes);
  }
  for (const PlanValue &value : graph.values) {
    int last = stageOfUnit[value.producer];
    for (int consumer : value.consumers)
      last = std::max(last, stageOfUnit[consumer]);
    for (int stage = stageOfUnit[value.producer]; stage < last; ++stage) {
      crossing[stage] += static_cast<double>(value.bytes);
      crossing[stage + 1] += static_cast<double>(value.bytes);
    }
  }
  double behind = 0;
  for (size_t i = plan.stages.size(); i-- > 0;) {
    PlanStage &stage = plan.stages[i];
    double flight = inFlight(behind, stage.replicas);
    behind += stage.replicas;
    stage.inFlight = stage.weightVersions = static_cast<int>(flight);
    stage.memoryBytes = static_cast<int64_t>(held[i].total(flight, crossing[i])) + workspace[i];
    stage.slotBytes = stage.memoryBytes - workspace[i] -
                      static_cast<int64_t>(held[i].total(flight - 1, crossing[i]));
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

double modelParallelSeconds(const Plan &plan, double work) {
  for (const Edge &edge : plan.edges) {
    Link link = plan.topology.linkBetween(plan.stages[edge.fromStage].ranks[0],
                                          plan.stages[edge.toStage].ranks[0]);
    double count = static_cast<double>(plan.microbatches);
    work += count * link.latencySeconds;
    if (link.bytesPerSecond > 0)
      work += count * static_cast<double>(edge.bytes) / link.bytesPerSecond;
  }
  return work;
}

void fillHierarchyPlan(Plan &plan, const PlanGraph &graph, const PlanRequest &request) {
  checkRequest(request);
  HierarchyRequest search{request.costModel, plan.topology, request.straight, request.compression,
                          request.memoryBytes};
  if (!search.memoryBytes)
    search.memoryBytes = plan.topology.memoryBytes;
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
  addDepths(plan, graph, stages);
  int workers = plan.topology.workers();
  bool rows = static_cast<int>(plan.stages.size()) == workers && workers <= kMostRanksWithRows;
  plan.schedule = rows ? completeSchedule(pipedream(straightPipeline(workers, 1)), plan.edges)
                       : steadySchedule(plan);
  plan.secondsPerMinibatch = partition.slowestSeconds;
  plan.singleDeviceSecondsPerMinibatch = work;
  plan.boundSecondsPerMinibatch = work / workers;
  plan.dataParallelSecondsPerMinibatch = dataParallelSeconds(graph, search);
  plan.modelParallelSecondsPerMinibatch = modelParallelSeconds(plan, work);
}

} // namespace pdc
