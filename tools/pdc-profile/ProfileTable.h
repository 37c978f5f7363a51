#pragma once

#include "compiler/plan/Plan.h"

#include <map>
#include <string>

namespace pdc {

/// Measured milliseconds per unit and phase, with the spread, and how far the analytic estimate is
/// from them. `spreads` holds per unit the seconds between the quartiles of its runs.
std::string profileTable(const PlanGraph &measured, const PlanGraph &estimated,
                         const std::vector<double> &spreads);

/// What all units that run the same kernel take together.
struct KernelTimes {
  int units = 0;
  double measured = 0, estimated = 0; ///< seconds
  double flops = 0, bytes = 0;
};

/// By the kernels' names, those that take most first: milliseconds, how far the analytic estimate
/// is from them, and the rates that were reached.
std::string kernelTable(const std::map<std::string, KernelTimes> &kernels);

} // namespace pdc
