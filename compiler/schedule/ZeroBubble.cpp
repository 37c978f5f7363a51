#include "compiler/schedule/Replicas.h"
#include "compiler/schedule/Schedules.h"

#include <algorithm>

namespace pdc {

/// One forward, one input gradient, one weight gradient, of the microbatches of a replica. The
/// forward passes run `ahead` of the input gradients, which run `deferred` ahead of the weight
/// gradients.
static std::vector<Step> rowsOfStage(int stage, int64_t ahead, int64_t deferred,
                                     const std::vector<int64_t> &own) {
  std::vector<Step> rows;
  auto count = static_cast<int64_t>(own.size());
  auto run = [&](Phase phase, int64_t turn) {
    if (turn >= 0 && turn < count)
      rows.push_back(runStep(stage, phase, own[turn]));
  };
  for (int64_t forward = 0; forward < ahead; ++forward)
    run(Phase::forward, forward);
  for (int64_t i = 0; i < count + deferred; ++i) {
    run(Phase::forward, i + ahead);
    run(Phase::backwardInput, i);
    run(Phase::backwardWeight, i - deferred);
  }
  return rows;
}

/// Stages run `depth` times as far ahead as 1F1B does, and leave so many weight gradients for the
/// end that each holds about as many microbatches as the first.
static Schedule zeroBubble(std::string_view name, const Pipeline &pipeline, int64_t depth) {
  Schedule apart = emptySchedule(name, apartPipeline(pipeline));
  std::vector<int64_t> forwards = forwardsAhead(apart.ranksOfStage, false);
  int64_t inFlight = depth * forwards[0] * apart.replicas(0);
  for (int stage = 0; stage < pipeline.stages; ++stage) {
    int64_t replicas = apart.replicas(stage), ahead = depth * forwards[stage];
    int64_t deferred = std::max<int64_t>(inFlight / replicas - ahead, 0);
    for (int64_t replica = 0; replica < replicas; ++replica)
      apart.ranks[apart.ranksOfStage[stage][replica]].warmUp = rowsOfStage(
          stage, ahead, deferred, microbatchesOf(replica, replicas, pipeline.microbatches));
  }
  return mergeOntoRanks(apart, pipeline);
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
Schedule zeroBubbleH1(const Pipeline &pipeline) { return zeroBubble("zb-h1", pipeline, 1); }

// 3 stages, 6 microbatches. Stage s runs 2(p-1-s) forward passes ahead, enough to never wait once
// it has begun, and leaves 2s weight gradients for the end:
//
//   stage 0  F0 F1 F2 F3 F4 I0 W0 F5 I1 W1 I2 W2 I3 W3 I4 W4 I5 W5 .  .
//   stage 1  .  F0 F1 F2 I0 F3 I1 F4 I2 W0 F5 I3 W1 I4 W2 I5 W3 W4 W5 .
//   stage 2  .  .  F0 I0 F1 I1 F2 I2 F3 I3 F4 I4 W0 F5 I5 W1 W2 W3 W4 W5
//
// Each stage holds at most 2p-1 microbatches. Idle per step, which ends in a barrier: (p-1)F where
// I <= 2F, I <= 2W and m >= 2p-1.
Schedule zeroBubbleH2(const Pipeline &pipeline) { return zeroBubble("zb-h2", pipeline, 2); }

} // namespace pdc
