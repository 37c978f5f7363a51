#pragma once

#include "compiler/simulator/PlayedRows.h"

namespace pdc {

/// How fast a timeline of tasks goes.
struct Pace {
  double secondsPerMinibatch = 0; ///< of a synchronous plan the median
  /// Part of the ranks' time in which they run no task: of a synchronous plan the median over its
  /// minibatches, each from its first task to the end of its last.
  double idle = 0;
};

/// Seconds of a rank's runs of one phase of a stage.
struct PhaseSeconds {
  int rank = 0, stage = 0;
  Phase phase = Phase::forward;
  double planned = 0, measured = 0; ///< medians
};

/// A measured run beside its plan. What the plan, played with the seconds that each run was
/// measured to take, lacks to the plan lies in those seconds; what the measured run lacks to that,
/// in messages, sums and waiting.
struct RunComparison {
  int64_t minibatches = 0;
  /// Of each minibatch of a synchronous plan.
  std::vector<Pace> playedEach, measuredEach;
  Pace planned, played, measured;
  std::vector<PhaseSeconds> phases;
};

/// Throws pdc::Error where a rank ran tasks in another order than the plan's.
RunComparison compareRun(const Plan &plan, const TaskTimes &measured);

} // namespace pdc
