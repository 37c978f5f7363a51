#pragma once

#include "compiler/plan/Plan.h"

namespace pdc {

/// Fills in a plan under a closed form: stages with replicas, predicted seconds, memory and the
/// baselines. Expects its model, cost model and topology. Throws pdc::Error when the request cannot
/// be met. Returns the stage of each unit.
std::vector<int> fillHierarchyPlan(Plan &plan, const PlanGraph &graph, const PlanRequest &request);

/// Gives such a plan what programs are made from: complete rows, proven, and what stages hold under
/// them. Its seconds stay those of the closed form.
void addRows(Plan &plan, const PlanGraph &graph, const PlanRequest &request,
             std::vector<int> stageOfUnit);

/// Its predicted seconds alone.
double hierarchySeconds(const PlanGraph &graph, const PlanRequest &request);

/// PipeDream's schedule in its steady state, without rows.
Schedule steadySchedule(const Plan &plan);

} // namespace pdc
