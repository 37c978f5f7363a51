#pragma once

#include "compiler/schedule/Rows.h"

#include <span>

namespace pdc {

/// Throws pdc::Error with a drawing of so many iterations unless the rows leave nothing over: every
/// stage runs every microbatch and makes every update.
void checkRunCounts(const Schedule &schedule, std::span<const Edge> edges, const UnrolledRows &rows,
                    int64_t drawnIterations);

/// Of rows that somebody has written: throws pdc::Error with a drawing unless they name what there
/// is, run no task twice on a rank, and leave nothing over. Slots and transfers count on it; the
/// rows of known schedules are so by themselves.
void checkRowsOfFile(const Schedule &schedule, std::span<const Edge> edges);

} // namespace pdc
