#include "compiler/schedule/Replicas.h"
#include "compiler/schedule/Rhythm.h"

namespace pdc {

// 3 stages, 5 microbatches; stage s runs p-1-s forward passes ahead:
//
//   stage 0  F0 F1 F2 .  .  B0 F3 B1 F4 B2 .  B3 .  B4
//   stage 1  .  F0 F1 .  B0 F2 B1 F3 B2 F4 B3 .  B4 .
//   stage 2  .  .  F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 .  .
//
// Replicas take turns and run as far ahead as forwardsAhead says; 2 stages, the first with 2
// replicas, 4 microbatches:
//
//   rank 0  0F0 0F2 .   0B0 .   .   .   0B2
//   rank 1  0F1 0F3 .   .   .   0B1 .   .   .   0B3
//   rank 2  .   1F0 1B0 1F1 1B1 1F2 1B2 1F3 1B3
Schedule oneFOneB(const Pipeline &pipeline) { return makeRows("1f1b", pipeline); }

std::vector<Rhythm> oneFOneBRhythms(const Pipeline &pipeline) {
  std::vector<Rhythm> rhythms;
  for (int64_t ahead : forwardsAhead(pipeline.ranksOfStage, false))
    rhythms.push_back({ahead});
  return rhythms;
}

} // namespace pdc
