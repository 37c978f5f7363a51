#pragma once

#include "compiler/plan/Plan.h"

namespace pdc {

/// A request of which one thing more is decided, under the name that a plan lists it by.
struct Way {
  std::string name;
  PlanRequest request;
  /// False: its schedule refuses so many microbatches.
  bool sharesMicrobatches = true;
};

/// One stage per rank, all stages with as many replicas, which take turns at the same microbatches:
/// up to data parallelism.
std::vector<Way> replicatedWays(const PlanRequest &request);

/// The synchronous schedules that place several stages on a rank, with so many stages, and so many
/// replicas of each rank.
std::vector<Way> chunkedWays(const PlanRequest &request, int chunks, int replicas);

} // namespace pdc
