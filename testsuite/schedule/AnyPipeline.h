#pragma once

#include "compiler/schedule/Play.h"
#include "compiler/schedule/Schedules.h"

namespace pdc {

/// Equal stages whose forward passes, input and weight gradients take so many seconds.
inline PlayCosts equalStages(int stages, double forward, double input, double weight) {
  return {std::vector<StageSeconds>(stages, {forward, input, weight, 0, forward}), {}, 0};
}

/// A pipeline on so many ranks as a schedule wants it: with its placement, `chunks` stages per rank
/// where it takes several and then so many replicas, and at least so many microbatches on each.
inline Pipeline anyPipeline(const ScheduleKind &kind, int ranks, int64_t microbatches,
                            int chunks = 2, int replicas = 1) {
  if (kind.placement == StagePlacement::straight)
    return straightPipeline(ranks, microbatches);
  if (kind.placement == StagePlacement::loop)
    microbatches = (microbatches + ranks - 1) / ranks * ranks;
  return placedPipeline(kind.placement, ranks, kind.placement == StagePlacement::fold ? 2 : chunks,
                        microbatches * replicas, replicas);
}

/// A pipeline of several stages per rank on places with so many replicas each.
inline Pipeline anyPlacedPipeline(const ScheduleKind &kind, const std::vector<int> &replicas,
                                  int64_t microbatches, int chunks) {
  auto places = static_cast<int>(replicas.size());
  if (hasEqualReplicas(replicatedPipeline(replicas, 1)))
    return anyPipeline(kind, places, microbatches, chunks, replicas[0]);
  return placedPipeline(kind.placement, replicas,
                        kind.placement == StagePlacement::fold ? 2 : chunks, microbatches);
}

} // namespace pdc
