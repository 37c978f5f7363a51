#pragma once

#include "tools/pdc/Lowering.h"

#include <functional>
#include <optional>
#include <ostream>

namespace pdc {

/// Plans and lays out until what is laid out fits the devices: the planner's sums are near it, and
/// may be too large or too small.
class Fitting {
public:
  Fitting(Lowering &lowering, const Options &options, std::ostream &progress)
      : lowering(lowering), options(options), progress(progress) {}

  /// A graph of level 4. Throws MemoryError where none that was laid out fits.
  PlannedGraph fit();

  /// Called with the first graph of level 1, if it is set.
  std::function<void(mlir::ModuleOp)> atGraph;

private:
  /// A graph of level 4, and of its memory, in parts of the devices', what was laid out for the
  /// rank that needs most, and how many times of that were planned.
  struct LaidOut {
    PlannedGraph graph;
    double share = 0, overestimate = 1;
  };

  /// `allowance`: of the devices' memory, what the planner may count on.
  LaidOut layOut(double allowance);
  PlannedGraph recomputeLess(LaidOut found, double allowance);
  bool recomputesByChoice(const Plan &plan) const;

  Lowering &lowering;
  const Options &options;
  std::ostream &progress;
};

} // namespace pdc
