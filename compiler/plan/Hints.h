#pragma once

#include "compiler/plan/Plan.h"

namespace pdc {

/// What holds a plan back most, and which changes of the request make it faster: each is planned,
/// and those that gain little are left out. Expects the plan of that graph and request; larger ones
/// than can be planned again in a moment get the bottleneck alone.
PlanHints findHints(const Plan &plan, const PlanGraph &graph, const PlanRequest &request);

} // namespace pdc
