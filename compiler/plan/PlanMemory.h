#pragma once

#include "compiler/plan/Cut.h"

#include <string_view>

namespace pdc {

/// What the memory of a cut follows from, apart from the schedule.
struct CutMemory {
  std::vector<StageMemory> stages;
  std::vector<std::vector<int>> tied; ///< the stages of each weight that several of them use
};

CutMemory sumMemory(const PlanGraph &graph, const std::vector<int> &stageOfUnit,
                    std::span<const Edge> edges);

/// Whether the runtime copies inputs to the device while that computes, to memory that is no
/// arena's (runtime/DeviceInputs.h).
bool holdsInputsBeside(std::string_view device);

/// What the plan's schedule asks of each stage.
std::vector<StageDepth> findDepths(const Plan &plan);

/// A stage as it is held: it recomputes where it has to, and where that alone makes it fit.
struct StageHolding {
  int64_t bytes = 0;
  bool recompute = false;
};

/// `beside`: bytes that neither the schedule nor recomputation changes. `limit` 0: none.
StageHolding holdStage(const StageMemory &sum, const StageDepth &depth, int64_t beside,
                       int64_t limit, bool must, bool may);

/// Bytes of the least of these devices; 0: not limited. `given`: per device, in place of what they
/// have; 0: not given.
int64_t deviceBytes(const Topology &topology, std::span<const int> ranks, int64_t given);

/// The same, of which sums may come to as much as the limit allows.
int64_t allowedBytes(const Topology &topology, std::span<const int> ranks,
                     const MemoryLimit &limit);

/// Gives each stage of a plan with a schedule its memory, and recomputation where it is chosen.
void addMemory(Plan &plan, const CutMemory &cut, const RecomputeChoice &choice,
               const MemoryLimit &limit);

/// Whether all stages of each device fit it together.
bool fitsMemory(const Plan &plan, const MemoryLimit &limit);

/// Throws pdc::MemoryError that says what would help when a stage needs more than its devices have.
void checkMemory(const Plan &plan, const CutMemory &cut, const MemoryLimit &limit);

/// Bytes by rank, of all its stages.
std::vector<int64_t> memoryByRank(const Plan &plan);

} // namespace pdc
