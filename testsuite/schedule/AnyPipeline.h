#pragma once

#include "compiler/schedule/Schedules.h"

namespace pdc {

/// A pipeline on so many ranks as a schedule wants it: with its placement, `chunks` stages per rank
/// where it takes several, and at least so many microbatches.
inline Pipeline anyPipeline(const ScheduleKind &kind, int ranks, int64_t microbatches,
                            int chunks = 2) {
  if (kind.placement == StagePlacement::straight)
    return straightPipeline(ranks, microbatches);
  if (kind.placement == StagePlacement::loop)
    microbatches = (microbatches + ranks - 1) / ranks * ranks;
  return placedPipeline(kind.placement, ranks, kind.placement == StagePlacement::fold ? 2 : chunks,
                        microbatches);
}

} // namespace pdc
