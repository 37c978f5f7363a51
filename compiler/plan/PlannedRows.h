#pragma once

#include "compiler/plan/Plan.h"

namespace pdc {

/// Whether `--schedule` names a file of rows, which say their stages and ranks themselves.
bool isFileOfRows(const std::string &schedule);

/// Stages that a request asks for: by its replicas, by its file of rows, by hand, else as many per
/// worker as the schedule places there. Throws pdc::Error when the workers cannot hold them.
int plannedStages(const PlanRequest &request);

/// The compute rows that a request's schedule stands for; `auto` is 1f1b: as idle as gpipe, with
/// fewer activations held; with several stages per rank interleaved. A known schedule of more runs
/// than that comes without rows, if its rhythm says all that planning needs of them.
Schedule plannedRows(const PlanRequest &request, int stages, int64_t mostRuns);

} // namespace pdc
