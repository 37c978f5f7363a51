#pragma once

#include "compiler/schedule/Schedule.h"

namespace pdc {

/// Updates by which the weights that a stage gives to a microbatch are older than all updates of
/// the microbatches before it. Stashing: the forward passes that the stage runs ahead; vertical
/// sync: those of stage 0; 2BW: 1.
int64_t staleness(const Schedule &schedule, int stage);

/// The version of its weights that a stage gives to a microbatch, counted in updates of the stage:
///
///     max(d, t - staleness),
///
/// t being the updates that the microbatches before this one make and d those of the `drained`
/// microbatches before the last drain. In a synchronous schedule a stage is never stale.
int64_t versionRead(const Schedule &schedule, int stage, int64_t microbatch, int64_t drained);

} // namespace pdc
