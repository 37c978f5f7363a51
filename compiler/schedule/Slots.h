#pragma once

#include "compiler/schedule/Rows.h"

namespace pdc {

/// Gives every microbatch of a stage a slot for as long as it lives there: from its first receive
/// or run to its last run and the sends of what it made. Replicas of a stage share one table. Fills
/// slots and slotTable.
void assignSlots(Schedule &schedule, std::span<const Edge> edges);

/// Counts the weight versions of each stage that a replica must keep apart: those that microbatches
/// between forward and backward have seen, and the one that an update writes.
void assignVersions(Schedule &schedule);

/// The slot of a microbatch counted from the beginning of the run.
int slotOf(const Schedule &schedule, int stage, int64_t microbatch);

} // namespace pdc
