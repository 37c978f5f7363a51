#pragma once

#include "compiler/plan/Planner.h"

namespace pdc {

/// Chooses among the synchronous schedules, and where the request leaves replicas open among these
/// and data parallelism too: each is cut for itself, recomputes where it must, and is played. The
/// fastest that fits the memory wins, but what is harder to follow than 1F1B only with a gain that
/// is worth it; then the rows of the best are searched. Where the request leaves open how many
/// stages a rank has, the schedules that give it several come next, on as many replicas as are
/// open, the rows of the best of them are searched too, and it wins with a gain over all that. The
/// plan lists what was tried. Throws the error of 1f1b when nothing fits.
Planned chooseTogether(const PlanGraph &graph, const PlanRequest &request);

/// The same with its transfers, proven; where those make it impossible the next best.
Planned chooseCompleted(const PlanGraph &graph, const PlanRequest &request);

} // namespace pdc
