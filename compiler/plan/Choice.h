#pragma once

#include "compiler/plan/Planner.h"

namespace pdc {

/// Chooses among the ways that the request leaves open (Ways.h): each is planned and played. The
/// fastest that fits the memory wins, of those that are played alike the simplest. Where the
/// schedule is open (`auto`) the rows of the best are searched then, and where it is open how many
/// stages a rank has, those of the best with several too if it is the fastest so far. The plan
/// lists what was tried. Throws the error of the longest pipeline under the simplest schedule when
/// nothing fits.
Planned chooseTogether(const PlanGraph &graph, const PlanRequest &request);

/// The same with its transfers, proven; where those make it impossible the next best.
Planned chooseCompleted(const PlanGraph &graph, const PlanRequest &request);

} // namespace pdc
