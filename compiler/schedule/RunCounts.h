#pragma once

#include "compiler/schedule/Rows.h"

#include <span>

namespace pdc {

/// Throws pdc::Error with a drawing of so many iterations unless the rows leave nothing over: every
/// stage runs every microbatch and makes every update.
void checkRunCounts(const Schedule &schedule, std::span<const Edge> edges, const UnrolledRows &rows,
                    int64_t drawnIterations);

/// Throws pdc::Error with a drawing that marks the first task that a rank runs a second time.
void checkRunsOnce(const Schedule &schedule, std::span<const Edge> edges, const UnrolledRows &rows,
                   int64_t drawnIterations);

} // namespace pdc
