#pragma once

#include "compiler/plan/Planner.h"

namespace pdc {

/// Chooses among the synchronous schedules, and where the request leaves replicas open among these
/// and data parallelism too: each is planned as by its name and played. The fastest that fits the
/// memory wins, of those that are played alike the simplest; then the rows of the best are
/// searched. Where the request leaves open how many stages a rank has, the schedules that give it
/// several come next, on as many replicas as are open, and the rows of the best of them are
/// searched too if it is the fastest so far. The plan lists what was tried. Throws the error of
/// 1f1b when nothing fits.
Planned chooseTogether(const PlanGraph &graph, const PlanRequest &request);

/// The same with its transfers, proven; where those make it impossible the next best.
Planned chooseCompleted(const PlanGraph &graph, const PlanRequest &request);

} // namespace pdc
