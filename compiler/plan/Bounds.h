#pragma once

#include "compiler/plan/Plan.h"

namespace pdc {

/// Seconds of a unit per microbatch, forward and backward.
double microbatchSeconds(const PlanUnit &unit);

/// By how much a microbatch takes longer whose gradients are added to earlier ones.
double accumulationSeconds(const PlanUnit &unit);

/// Work of the whole model: per microbatch and per update.
struct Work {
  double microbatch = 0, update = 0, largest = 0;
  double backward = 0, weights = 0; ///< of a microbatch; `weights` is the part nobody waits for
  /// The part of the others along the longest path: less than all where branches can run at once.
  double path = 0;
  double accumulation = 0; ///< of a microbatch that is not its update's first
  int64_t gradients = 0;
  double slowdown = 1, updateSlowdown = 1; ///< the means of the units'

  explicit Work(const PlanGraph &graph);
};

/// The least seconds per minibatch (or per microbatch of an asynchronous schedule) that any cut
/// into so many stages could reach: work that is perfectly divisible, transfers that take no time,
/// and of a pipeline that empties at each update the unavoidable filling and emptying. Where each
/// unit feeds the next and gets its gradient from it, stage s cannot start before the stages in
/// front have run once, nor end before they have run back once, so with work w_s per microbatch T
/// >= w_0 + ... + w_{s-1} + m w_s for each s; the best choice of w_s makes all equal: T = W / (1 -
/// (1 - 1/m)^p). Where weight gradients run apart only the forward part f of the stages in front is
/// certain to lie outside: T >= f (w_0 + ... + w_{s-1}) + m w_s, T = f W / (1 - (1 - f/m)^p). In a
/// graph with parallel branches stages may run side by side and only m W / p is certain.
double boundSeconds(const PlanGraph &graph, int stages, const Schedule &schedule);

/// The least seconds of an update of so many microbatches, however devices share the work: all of
/// it spread evenly over those that compute at once; and no microbatch is there and back sooner
/// than along the longest path through the graph.
double leastSecondsOfUpdate(const PlanGraph &graph, const Topology &topology, int threads,
                            int64_t microbatches);

/// What holds a plan with stages, schedule and seconds back, one physical reason after the other.
PlanBounds findBounds(const Plan &plan);

} // namespace pdc
