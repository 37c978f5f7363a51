#pragma once

#include "compiler/plan/Plan.h"

namespace pdc {

/// Stages that a request asks for: by its replicas, by its file of rows, by hand, else as many per
/// worker as the schedule places there. Throws pdc::Error when the workers cannot hold them.
int plannedStages(const PlanRequest &request);

/// The compute rows that a request's schedule stands for; `auto` is 1f1b: as idle as gpipe, with
/// fewer activations held.
Schedule plannedRows(const PlanRequest &request, int stages);

} // namespace pdc
