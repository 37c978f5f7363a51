#pragma once

#include "compiler/plan/Plan.h"

namespace pdc {

/// The stage of each unit by hand. A unit none of whose nodes is named goes with the latest stage
/// it reads from. Throws pdc::Error that names the nodes when one is unknown, when a unit would be
/// torn, when a value would go backwards, or when a stage stays empty.
std::vector<int> applyAssignment(const PlanGraph &graph,
                                 const std::map<std::string, int> &assignment);

} // namespace pdc
