#pragma once

#include "compiler/plan/Plan.h"

namespace pdc {

/// Decides everything about a run: stages, schedule, and what they will cost. Throws pdc::Error
/// when the request cannot be met.
Plan makePlan(const PlanGraph &graph, const PlanRequest &request);

/// The same as programs are made from: with rows also under PipeDream's cost models, which speak of
/// the steady state of its schedule alone.
Plan makePlanOfPrograms(const PlanGraph &graph, const PlanRequest &request);

/// What such a plan predicts, without proving its schedule and what a reader compares it with.
double plannedSecondsPerMicrobatch(const PlanGraph &graph, const PlanRequest &request);

} // namespace pdc
