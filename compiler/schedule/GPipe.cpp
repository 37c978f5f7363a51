#include "compiler/schedule/Replicas.h"
#include "compiler/schedule/Schedules.h"

#include <ranges>

namespace pdc {

// 3 stages, 4 microbatches; the backward pass ascends too, so that sums have one order everywhere:
//
//   stage 0  F0 F1 F2 F3 .  .  .  .  B0 B1 B2 B3
//   stage 1  .  F0 F1 F2 F3 .  .  B0 B1 B2 B3 .
//   stage 2  .  .  F0 F1 F2 F3 B0 B1 B2 B3 .  .
//
// A rank with several stages runs the first through all microbatches, then the next. Replicas take
// turns.
Schedule gpipe(const Pipeline &pipeline) {
  Schedule schedule = emptySchedule("gpipe", pipeline);
  for (int rank = 0; rank < pipeline.ranks(); ++rank) {
    auto &rows = schedule.ranks[rank].warmUp;
    std::vector<int> stages = pipeline.stagesOfRank(rank);
    auto runAll = [&](int stage, Phase phase) {
      int replica = replicaOn(schedule, stage, rank);
      for (int64_t microbatch :
           microbatchesOf(replica, schedule.replicas(stage), pipeline.microbatches))
        rows.push_back(runStep(stage, phase, microbatch));
    };
    for (int stage : stages)
      runAll(stage, Phase::forward);
    for (int stage : stages | std::views::reverse)
      runAll(stage, Phase::backward);
  }
  closeMinibatch(schedule, pipeline);
  return schedule;
}

std::vector<Rhythm> gpipeRhythms(const Pipeline &pipeline) {
  return std::vector<Rhythm>(pipeline.stages, {pipeline.microbatches});
}

} // namespace pdc
