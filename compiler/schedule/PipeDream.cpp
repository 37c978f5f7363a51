#include "compiler/Error.h"
#include "compiler/schedule/Schedules.h"

namespace pdc {

// 3 stages; warm-up | repeat ... | drain. An update follows each B:
//
//   stage 0  F0 F1 | F2 .  .  B0 F3 B1 F4 B2 | .  B3 .  B4
//   stage 1  .  F0 | F1 .  B0 F2 B1 F3 B2    | F4 B3 .  B4
//   stage 2  .  .  | F0 B0 F1 B1 F2 B2       | F3 B3 F4 B4
//
// The ranks leave `repeat` after the same number of iterations; stage s has then run p-1-s forward
// passes more than backward passes. The drain brings all to the same microbatch: s forward passes
// are left at stage s.
Schedule pipedream(const Pipeline &pipeline) {
  Schedule schedule = emptySchedule("pipedream", pipeline);
  if (pipeline.ranks() != pipeline.stages)
    throw Error("schedule pipedream places one stage on each rank, found " +
                std::to_string(pipeline.stages) + " stages on " + std::to_string(pipeline.ranks()) +
                " ranks; use 1f1b or gpipe");
  schedule.asynchronous = true;
  schedule.microbatches = 1;
  schedule.period = 1;
  for (int stage = 0; stage < pipeline.stages; ++stage) {
    RankRows &rows = schedule.ranks[schedule.rankOf(stage, 0)];
    int ahead = pipeline.stages - 1 - stage;
    for (int forward = 0; forward < ahead; ++forward)
      rows.warmUp.push_back(runStep(stage, Phase::forward, forward));
    rows.repeat = {runStep(stage, Phase::forward, ahead), runStep(stage, Phase::backward, 0),
                   runStep(stage, Phase::update, 0)};
    for (int backward = 0; backward < pipeline.stages - 1; ++backward) {
      if (backward < stage)
        rows.drain.push_back(runStep(stage, Phase::forward, ahead + backward));
      rows.drain.push_back(runStep(stage, Phase::backward, backward));
      rows.drain.push_back(runStep(stage, Phase::update, backward));
    }
  }
  return schedule;
}

} // namespace pdc
