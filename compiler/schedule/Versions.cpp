#include "compiler/schedule/Versions.h"

#include "compiler/schedule/Replicas.h"

#include <algorithm>

namespace pdc {

int64_t staleness(const Schedule &schedule, int stage) {
  if (!schedule.asynchronous)
    return 0;
  if (schedule.weightRule == WeightRule::previous)
    return 1;
  std::vector<int64_t> ahead = forwardsAhead(schedule.ranksOfStage, true);
  return ahead[schedule.weightRule == WeightRule::atEntry ? 0 : stage];
}

int64_t versionRead(const Schedule &schedule, int stage, int64_t microbatch, int64_t drained) {
  int64_t size = microbatchesPerUpdate(schedule, stage);
  return std::max(drained / size, microbatch / size - staleness(schedule, stage));
}

} // namespace pdc
