#pragma once

#include "compiler/plan/Plan.h"

#include <random>

namespace pdc {

/// Units "u0", "u1", ... with one node "n0", ... each, of so many seconds forward and twice that
/// backward; a value of 1000 bytes from each to the next.
PlanGraph chainGraph(const std::vector<double> &forwardSeconds);

/// A graph with skips, costs and bytes drawn at random.
PlanGraph randomGraph(int units, std::mt19937 &random);

} // namespace pdc
