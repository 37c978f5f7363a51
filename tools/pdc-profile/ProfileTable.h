#pragma once

#include "compiler/plan/Plan.h"

#include <string>
#include <vector>

namespace pdc {

/// Measured milliseconds per unit and phase, with the spread, and how far the analytic estimate is
/// from them. `spreads` holds per unit the seconds between the quartiles of its runs.
std::string profileTable(const PlanGraph &measured, const PlanGraph &estimated,
                         const std::vector<double> &spreads);

/// A unit's kernel beside its analytic estimate.
struct KernelTimes {
  std::string unit, kernel;
  double measured = 0, estimated = 0; ///< seconds
  double flops = 0, bytes = 0;
};

/// By the kernels' names, those that take most first: milliseconds, how far the analytic estimate
/// is from them, and the rates that were reached.
std::string kernelTable(const std::vector<KernelTimes> &units);

/// A line of comma-separated values per unit.
std::string kernelLines(const std::vector<KernelTimes> &units);

} // namespace pdc
