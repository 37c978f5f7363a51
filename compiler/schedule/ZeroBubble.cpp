#include "compiler/schedule/Replicas.h"
#include "compiler/schedule/Rhythm.h"

#include <algorithm>

namespace pdc {

/// Stages run `depth` times as far ahead as 1F1B does, and leave so many weight gradients for the
/// end that each holds about as many microbatches as the first.
static std::vector<Rhythm> zeroBubbleRhythms(const Pipeline &pipeline, int64_t depth) {
  std::vector<int64_t> forwards = forwardsAhead(pipeline.ranksOfStage, false);
  auto replicas = [&](int stage) {
    return static_cast<int64_t>(pipeline.ranksOfStage[stage].size());
  };
  int64_t inFlight = depth * forwards[0] * replicas(0);
  std::vector<Rhythm> rhythms;
  for (int stage = 0; stage < pipeline.stages; ++stage) {
    int64_t ahead = depth * forwards[stage];
    rhythms.push_back({ahead, std::max<int64_t>(inFlight / replicas(stage) - ahead, 0), true});
  }
  return rhythms;
}

// 3 stages, 5 microbatches. Stage s runs p-1-s forward passes ahead, as 1F1B does, and leaves s
// weight gradients for the end, when the others still wait for gradients:
//
//   stage 0  F0 F1 F2 .  .  I0 W0 F3 I1 W1 F4 I2 W2 I3 W3 I4 W4
//   stage 1  .  F0 F1 .  I0 F2 I1 W0 F3 I2 W1 F4 I3 W2 I4 W3 W4
//   stage 2  .  .  F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 F4 I4 W2 W3 W4
//
// Each stage holds at most p microbatches between forward and weight gradient. Idle per step:
// (p-1)(F+I-min(I,W)) where min(I,W) <= F and m >= p.
Schedule zeroBubbleH1(const Pipeline &pipeline) { return makeRows("zb-h1", pipeline); }

std::vector<Rhythm> zeroBubbleH1Rhythms(const Pipeline &pipeline) {
  return zeroBubbleRhythms(pipeline, 1);
}

// 3 stages, 6 microbatches. Stage s runs 2(p-1-s) forward passes ahead, enough to never wait once
// it has begun, and leaves 2s weight gradients for the end:
//
//   stage 0  F0 F1 F2 F3 F4 I0 W0 F5 I1 W1 I2 W2 I3 W3 I4 W4 I5 W5 .  .
//   stage 1  .  F0 F1 F2 I0 F3 I1 F4 I2 W0 F5 I3 W1 I4 W2 I5 W3 W4 W5 .
//   stage 2  .  .  F0 I0 F1 I1 F2 I2 F3 I3 F4 I4 W0 F5 I5 W1 W2 W3 W4 W5
//
// Each stage holds at most 2p-1 microbatches. Idle per step, which ends in a barrier: (p-1)F where
// I <= 2F, I <= 2W and m >= 2p-1.
Schedule zeroBubbleH2(const Pipeline &pipeline) { return makeRows("zb-h2", pipeline); }

std::vector<Rhythm> zeroBubbleH2Rhythms(const Pipeline &pipeline) {
  return zeroBubbleRhythms(pipeline, 2);
}

} // namespace pdc
