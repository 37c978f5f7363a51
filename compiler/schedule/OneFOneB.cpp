#include "compiler/schedule/Schedules.h"

#include <algorithm>

namespace pdc {

static std::vector<Step> rowsOfStage(int stage, const Pipeline &pipeline) {
  int64_t microbatches = pipeline.microbatches;
  int64_t ahead = std::min<int64_t>(pipeline.stages - 1 - stage, microbatches);
  std::vector<Step> rows;
  for (int64_t forward = 0; forward < ahead; ++forward)
    rows.push_back(runStep(stage, Phase::forward, forward));
  for (int64_t backward = 0; backward < microbatches; ++backward) {
    if (backward + ahead < microbatches)
      rows.push_back(runStep(stage, Phase::forward, backward + ahead));
    rows.push_back(runStep(stage, Phase::backward, backward));
  }
  return rows;
}

// 3 stages, 5 microbatches; stage s runs p-1-s forward passes ahead:
//
//   stage 0  F0 F1 F2 .  .  B0 F3 B1 F4 B2 .  B3 .  B4
//   stage 1  .  F0 F1 .  B0 F2 B1 F3 B2 F4 B3 .  B4 .
//   stage 2  .  .  F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 .  .
Schedule oneFOneB(const Pipeline &pipeline) {
  Schedule apart = emptySchedule("1f1b", straightPipeline(pipeline.stages, pipeline.microbatches));
  for (int stage = 0; stage < pipeline.stages; ++stage)
    apart.ranks[stage].warmUp = rowsOfStage(stage, pipeline);
  return mergeOntoRanks(apart, pipeline);
}

} // namespace pdc
