#pragma once

#include "compiler/plan/Bounds.h"

namespace pdc {

/// The work of a model whose graph is known for microbatches of two sizes, for any other: on the
/// line through both, since a kernel takes a time of its own and a time per sample.
class WorkOfSizes {
public:
  struct Known {
    int64_t size = 0;
    Work work;
  };
  /// Of different sizes.
  WorkOfSizes(const Known &one, const Known &other);
  Work of(int64_t size) const;

private:
  double secondsOf(int64_t size, double ofSmaller, double ofLarger) const;

  Known smaller, larger;
};

/// The seconds that an update of this request is expected to take, without planning it: with work W
/// per microbatch that divides evenly into p stages of r replicas each, m / r microbatches' parts W
/// / p, what the schedule leaves a rank waiting, and what of the sums of gradients the backward
/// pass does not hide. The fewest of all equal replicas and synchronous schedules, where these are
/// open. Messages, memory and the units' sizes, of which it knows nothing, make plans slower;
/// uneven cuts, and branches that run at once, make some faster.
double expectedSecondsOfUpdate(const Work &work, const PlanRequest &request);

} // namespace pdc
