#include "compiler/schedule/Replicas.h"
#include "compiler/schedule/Schedules.h"

namespace pdc {

// PipeDream-2BW; 3 stages, 4 microbatches per update; warm-up | repeat ... | drain. U makes version
// v + 1 from the microbatches of update v, which read version v - 1 (the first two read version 0):
//
//   stage 0  F0 F1 | F2 .  .  B0 F3 B1 F4 B2 F5 B3 U | F6 B4 F7 B5 .  B6 .  B7 U
//   stage 1  .  F0 | F1 .  B0 F2 B1 F3 B2 F4 B3 U    | F5 B4 F6 B5 F7 B6 .  B7 U
//   stage 2  .  .  | F0 B0 F1 B1 F2 B2 F3 B3 U       | F4 B4 F5 B5 F6 B6 F7 B7 U
//
// The rows are those of pipedream with fewer updates. An iteration is one update, or as many as the
// routing of the replicas needs to repeat. Where an update has no fewer microbatches than there are
// in flight, those in flight behind it belong to the next one alone: two versions are enough, at
// every stage, and gradients are one update old, whatever the number of stages.
Schedule twoVersions(const Pipeline &pipeline) {
  Schedule schedule = emptyAsynchronousSchedule("2bw", pipeline);
  schedule.weightRule = WeightRule::previous;
  schedule.period = writtenPeriod(schedule);
  fillAsynchronousRows(schedule);
  return schedule;
}

} // namespace pdc
