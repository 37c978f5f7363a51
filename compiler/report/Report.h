#pragma once

#include "compiler/plan/Plan.h"

#include <string>

namespace pdc {

/// report.html: what was decided and how it will run, for a browser. One file that needs no other
/// and no network: tables, the played timeline, memory over time, the unit graph by stage. `graph`
/// is what the plan was made from.
std::string printReport(const Plan &plan, const PlanGraph &graph);

} // namespace pdc
