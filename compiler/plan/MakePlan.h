#pragma once

#include "compiler/plan/Plan.h"

namespace pdc {

/// Decides everything about a run: stages, schedule, and what they will cost. Throws pdc::Error
/// when the request cannot be met.
Plan makePlan(const PlanGraph &graph, const PlanRequest &request);

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

/// Data parallelism on the same workers: each takes its share of the minibatch, gradients are
/// summed by a ring all-reduce over the slowest link.
double dataParallelSeconds(const PlanGraph &graph, const Topology &topology, int64_t microbatches,
                           bool asynchronous);

} // namespace pdc
