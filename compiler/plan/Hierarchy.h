#pragma once

#include "compiler/plan/Plan.h"

namespace pdc {

/// Bytes that a stage of an asynchronous pipeline holds, as sums over its units.
struct StageBytes {
  double weights = 0; ///< one version
  double fixed = 0;   ///< gradients, optimizer state
  double kept = 0;    ///< per minibatch in flight, from forward to backward

  void add(const PlanUnit &unit);
  StageBytes minus(const StageBytes &other) const;
  /// With a version of the weights, the kept activations and, both ways, the `crossing` bytes of
  /// its two cuts for each minibatch in flight.
  double total(double flight, double crossing) const;
};

/// Minibatches in flight at a stage with so many replicas, when so many are in flight behind it:
/// PipeDream's warm-up, rounded up so that no replica waits.
double inFlight(double behind, int replicas);

} // namespace pdc
