#include "compiler/schedule/Replicas.h"
#include "compiler/schedule/Schedules.h"

namespace pdc {

// 3 stages:
//
//   stage 0  E0 E1 E2 E3 .  .
//   stage 1  .  E0 E1 E2 E3 .
//   stage 2  .  .  E0 E1 E2 E3
//
// Replicas take turns: an iteration has as many microbatches as their routing has.
Schedule evaluation(const Pipeline &pipeline) {
  Schedule schedule = emptySchedule("evaluation", pipeline);
  schedule.asynchronous = true;
  schedule.microbatches = 1;
  schedule.period = writtenPeriod(schedule);
  for (int64_t microbatch = 0; microbatch < schedule.period; ++microbatch)
    for (int stage = 0; stage < pipeline.stages; ++stage)
      schedule.ranks[schedule.rankOf(stage, microbatch)].repeat.push_back(
          runStep(stage, Phase::evaluate, microbatch));
  return schedule;
}

} // namespace pdc
