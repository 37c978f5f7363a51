#pragma once

#include "compiler/plan/Plan.h"
#include "compiler/schedule/Play.h"
#include "compiler/simulator/PlayedRows.h"

#include <limits>
#include <vector>

namespace pdc {

/// A plan as it is played on its topology.
struct PlanSimulation {
  /// Runs, sends in the row of the sender from the moment they are handed over, receives in that of
  /// the receiver from the moment it may take them, sums from a rank's joining. By start, then
  /// rank.
  std::vector<Event> events;
  double seconds = 0;
  std::vector<double> busySeconds; ///< per rank
};

/// Plays so many minibatches of a synchronous plan, or at least so many microbatches of an
/// asynchronous one. Replicas take microbatches in turn and sum the gradients of each round.
PlanSimulation simulate(const Plan &plan, int64_t iterations);

/// Plays these rows; runs take the plan's seconds, or those that they were measured to take.
/// Messages and sums are the plan's in both.
PlanSimulation simulate(const Plan &plan, const PlayedRows &rows);
PlanSimulation simulate(const Plan &plan, const PlayedRows &rows, const TaskTimes &measured);

/// Seconds between two updates (synchronous) or between two microbatches in steady state, played;
/// of a plan without rows as many microbatches as show its rhythm, in which the others follow; where
/// these are too many as well, run by run, with links that share ports as playCosts says.
///
/// Where a synchronous plan is sure to take `limit` or more, the answer may be any time from there
/// on: a search that wants only faster plans need not have the others played.
double simulatedSecondsPerMinibatch(const Plan &plan,
                                    double limit = std::numeric_limits<double>::infinity());

/// As many minibatches, or microbatches of an asynchronous plan, as show the filling of the
/// pipeline and a few rounds of its rhythm.
int64_t iterationsToShow(const Plan &plan);

/// What a rank holds, from `seconds` on.
struct MemoryPoint {
  double seconds = 0;
  int64_t bytes = 0;
};

/// Bytes in use over time, per rank: weights, gradients and workspaces always, and what each
/// microbatch keeps from the beginning of its forward to the end of its backward pass.
std::vector<std::vector<MemoryPoint>> memoryOverTime(const Plan &plan,
                                                     const PlanSimulation &simulation);

} // namespace pdc
