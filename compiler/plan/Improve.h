#pragma once

#include "compiler/plan/Planner.h"

namespace pdc {

/// Moves single units, and pairs of them, over the cuts of a plan as long as it gets faster where
/// it is played: the search for a chain knows the slowest stage, not what waits for what, and cuts
/// the units in one order. Plays so many runs at most. Nothing where no move helps.
std::optional<std::vector<int>> improveCut(const PlanGraph &graph, const PlanRequest &request,
                                           const Planned &planned, int64_t effort);

} // namespace pdc
