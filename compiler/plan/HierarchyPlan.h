#pragma once

#include "compiler/plan/Plan.h"

namespace pdc {

/// Fills in a plan under a closed form: stages with replicas, predicted seconds, memory and the
/// baselines. Expects its model, cost model and topology. Throws pdc::Error when the request cannot
/// be met.
void fillHierarchyPlan(Plan &plan, const PlanGraph &graph, const PlanRequest &request);

/// Its predicted seconds alone.
double hierarchySeconds(const PlanGraph &graph, const PlanRequest &request);

/// PipeDream's schedule in its steady state, without rows.
Schedule steadySchedule(const Plan &plan);

} // namespace pdc
