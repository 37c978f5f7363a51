#pragma once

#include "compiler/schedule/Rows.h"

#include <span>

namespace pdc {

/// Throws pdc::Error with a drawing of so many iterations unless the rows leave nothing over: every
/// stage runs every microbatch and makes every update.
void checkRunCounts(const Schedule &schedule, std::span<const Edge> edges, const UnrolledRows &rows,
                    int64_t drawnIterations);

/// The same of rows without transfers, which also run no task twice on a rank.
void checkRuns(const Schedule &schedule, std::span<const Edge> edges);

} // namespace pdc
