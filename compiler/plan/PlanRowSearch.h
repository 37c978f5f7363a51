#pragma once

#include "compiler/plan/Planner.h"

namespace pdc {

/// Searches rows that make a plan faster as it is played (see compiler/schedule/RowSearch.h),
/// beginning with those of its planner; they fit the memory. The planner's own where none are
/// found.
Schedule searchRowsOf(const Planned &planned, const Planner &planner);

} // namespace pdc
