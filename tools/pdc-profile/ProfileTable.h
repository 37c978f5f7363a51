#pragma once

#include "compiler/plan/Plan.h"

#include <string>

namespace pdc {

/// Measured milliseconds per unit and phase, with the spread, and how far the analytic estimate is
/// from them. `spreads` holds per unit the seconds between the quartiles of its runs.
std::string profileTable(const PlanGraph &measured, const PlanGraph &estimated,
                         const std::vector<double> &spreads);

} // namespace pdc
