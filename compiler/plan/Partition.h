#pragma once

#include "compiler/plan/Plan.h"

#include <functional>

namespace pdc {

/// What the search needs beside the graph: how deep a schedule makes each stage.
struct PartitionRequest {
  int stages = 1;
  Topology topology;
  int64_t microbatches = 1; ///< per update: an update's seconds are spread over them
  int64_t memoryBytes = 0;  ///< per device; 0: not limited
  std::function<int64_t(int stage)> slots, versions;
  bool split = false; ///< input and weight gradients run apart
};

struct Partition {
  std::vector<int> stageOfUnit;
  double slowestSeconds = 0; ///< per microbatch, transfers included
};

/// Cuts the units, in their order, into contiguous stages so that the slowest one is as fast as it
/// can be: exact, by dynamic programming over the ends of stages. A stage takes its runs, its share
/// of the update, and the transfers of what crosses its two ends (a value that goes to several
/// stages counts once). Throws pdc::Error when no cut fits the memory.
Partition findPartition(const PlanGraph &graph, const PartitionRequest &request);

} // namespace pdc
