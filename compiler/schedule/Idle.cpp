#include "compiler/schedule/Idle.h"

#include <algorithm>

namespace pdc {

double idleOfFlush(const EvenPipeline &p) {
  return (p.ranks - 1) * (p.forward + p.backward) / p.chunks;
}

/// `filled`: how many weight gradients of a microbatch fill each wait at most.
static double idleOfSplit(const EvenPipeline &p, double filled) {
  const double way = p.forward + p.backward - p.weightGradients;
  const double least = std::max(p.forward, way - filled * p.weightGradients);
  return std::max((p.ranks - 1) * least / p.chunks,
                  (p.ranks - 1) * way - (p.microbatches - 1) * p.weightGradients);
}

double idleOfZeroBubble(const EvenPipeline &pipeline) { return idleOfSplit(pipeline, 1); }

double idleOfZeroBubbleH2(const EvenPipeline &pipeline) { return idleOfSplit(pipeline, 2); }

} // namespace pdc
