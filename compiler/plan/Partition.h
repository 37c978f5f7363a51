#pragma once

#include "compiler/plan/Plan.h"

#include <functional>
#include <optional>

namespace pdc {

/// Stages of a level: `replicas` components of it run the same part of the model. At the lowest
/// level that is a list of units, above it a pipeline of the level below.
struct StageGroup {
  int replicas = 1;
  std::vector<StageGroup> groups;
  std::vector<int> units;
};

struct Partition {
  std::vector<StageGroup> groups; ///< of the highest level
  double slowestSeconds = 0;
  int cuts = 0;       ///< places the search could cut at
  bool exact = false; ///< no place was left out: no plan is better under the cost model
};

/// The stage of each of so many units; stages are numbered from the front.
std::vector<int> stageOfUnit(const Partition &partition, size_t units);

/// What the search needs beside the graph for a chain of stages whose replicas are known: how deep
/// a schedule makes each stage.
struct ChainRequest {
  int stages = 1;
  Topology topology;
  std::vector<std::vector<int>> ranksOfStage;
  /// Per update of a stage: its seconds are spread over them.
  std::function<int64_t(int stage)> microbatches;
  /// What a device of the stage has; 0: not limited.
  std::function<int64_t(int stage)> memoryBytes;
  std::function<int64_t(int stage)> slots, versions;
  bool split = false;        ///< input and weight gradients run apart
  bool inputsBeside = false, spreads = false; ///< StageDepth
  RecomputeChoice recompute;
};

/// Cuts the units, in their order, into contiguous stages so that the slowest one is as fast as it
/// can be. A stage takes its runs (where it recomputes, a second forward pass) and the transfers of
/// what crosses its two ends (a value that goes to several stages counts once), which its replicas
/// share, and its share of the update and of the sum over replicas. Nothing when no cut fits the
/// memory or has a finite number of seconds.
std::optional<Partition> findChain(const PlanGraph &graph, const ChainRequest &request);

/// What PipeDream's cost models need: compiler/cost/ClosedForm.h. All workers of all levels are
/// used.
struct HierarchyRequest {
  std::string costModel;
  Topology topology;
  bool straight = false;   ///< no replicas at any level
  double compression = 1;  ///< of what crosses cuts; 0: crossing takes no time
  int64_t memoryBytes = 0; ///< per device; 0: not limited
  double effort = 1;       ///< part of the usual steps that the search may take
};

/// Cuts the graph into convex stages, replicated at each level, for the least seconds per
/// minibatch. A level's last stage under `pipedream-code` counts no memory, and no other more than
/// the stashed weights and activations, as the released code does; the other models count what a
/// stage holds (see stageBytes). Throws pdc::Error that says what is missing when nothing fits.
Partition findHierarchy(const PlanGraph &graph, const HierarchyRequest &request);

/// Seconds per minibatch of data parallelism over all levels under a closed form.
double dataParallelSeconds(const PlanGraph &graph, const HierarchyRequest &request);

} // namespace pdc
