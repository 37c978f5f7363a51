#pragma once

#include "tools/pdc/Lowering.h"

#include <functional>
#include <limits>
#include <optional>
#include <ostream>
#include <string>

namespace pdc {

/// Plans and lays out until what is laid out fits the devices: the planner's sums are near it, and
/// may be too large or too small.
class Fitting {
public:
  Fitting(Lowering &lowering, const Options &options, std::ostream &progress)
      : lowering(lowering), options(options), progress(progress) {}

  /// A graph of level 4. Throws MemoryError where no plan that is found fits.
  PlannedGraph fit();

  /// A graph of level 1 whose plan fits by the planner's sums, else one that is laid out to fit.
  PlannedGraph planOnly();

  /// Called with the first graph of level 1, if it is set.
  std::function<void(mlir::ModuleOp)> atGraph;

private:
  /// A graph of level 4 and, of what its ranks have, the most that one of them needs as it is laid
  /// out, and how many times of that were planned.
  struct LaidOut {
    PlannedGraph graph;
    double share = 0, overestimate = 1;
  };

  LaidOut layOut();
  std::optional<LaidOut> tryLayOut();
  double nextAllowance(const std::optional<LaidOut> &found);
  PlannedGraph recomputeLess(LaidOut found);
  bool recomputesByChoice(const Plan &plan) const;
  bool recomputeAll();

  Lowering &lowering;
  const Options &options;
  std::ostream &progress;
  double allowance = 1; ///< of MemoryLimit
  /// The largest that was refused, and the least whose layout was too large.
  double refused = 0, tooLarge = std::numeric_limits<double>::infinity();
  int plans = 0;                                               ///< tried
  bool isRecomputingAll = false;                               ///< the last resort
  std::string refusal;                                         ///< why none has fitted yet
  double leastShare = std::numeric_limits<double>::infinity(); ///< that was laid out
};

} // namespace pdc
