#include "compiler/schedule/Schedules.h"

namespace pdc {

// 3 stages:
//
//   stage 0  E0 E1 E2 E3 .  .
//   stage 1  .  E0 E1 E2 E3 .
//   stage 2  .  .  E0 E1 E2 E3
Schedule evaluation(const Pipeline &pipeline) {
  Schedule schedule = emptySchedule("evaluation", pipeline);
  schedule.asynchronous = true;
  schedule.microbatches = 1;
  schedule.period = 1;
  for (int stage = 0; stage < pipeline.stages; ++stage)
    schedule.ranks[schedule.rankOf(stage, 0)].repeat.push_back(runStep(stage, Phase::evaluate, 0));
  return schedule;
}

} // namespace pdc
