#include "compiler/Error.h"
#include "compiler/schedule/Rhythm.h"
#include "compiler/schedule/Schedules.h"

#include <algorithm>

namespace pdc {

/// A rank takes its chunks in turns of `ranks` microbatches each: turn k of its forward passes.
static Step turn(const Pipeline &pipeline, int rank, Phase phase, int64_t number) {
  int64_t ranks = pipeline.ranks(), chunks = pipeline.stages / ranks;
  int64_t chunk = number / ranks % chunks;
  if (phase != Phase::forward)
    chunk = chunks - 1 - chunk;
  return runStep(static_cast<int>(chunk * ranks) + rank, phase,
                 number / (ranks * chunks) * ranks + number % ranks);
}

static void checkMicrobatches(const Pipeline &pipeline) {
  int64_t ranks = pipeline.ranks(), found = pipeline.microbatches, below = found / ranks * ranks;
  if (found % ranks == 0)
    return;
  throw Error("schedule interleaved needs a multiple of its " + std::to_string(ranks) +
              " ranks as microbatches, found " + std::to_string(found) + "; use " +
              (below ? std::to_string(below) + " or " : "") + std::to_string(below + ranks));
}

// 2 ranks with 2 chunks each (stages 0 and 2, stages 1 and 3), 4 microbatches. Each rank takes its
// chunks in turns of p microbatches, and runs 2(p-1-r) + (v-1)p forward passes ahead:
//
//   rank 0  0F0 0F1 2F0 2F1 0F2 2B0 0F3 2B1 2F2 0B0 2F3 0B1 .   2B2 .   2B3 0B2 0B3
//   rank 1  .   1F0 1F1 3F0 3B0 3F1 3B1 1F2 1B0 1F3 1B1 3F2 3B2 3F3 3B3 1B2 1B3 .
//
// Of p ranks whose v chunks take F and B together: idle per step (p-1)(F+B)/v, and rank 0 holds pv
// + p - 1 chunks' activations at most, those of p(1 + (p-1)/(pv)) microbatches.
//
// Where each rank has replicas, all of them run these rows on microbatches of their own. Where
// ranks have different numbers of them no column of ranks has a part of the microbatches to itself:
// each rank then takes its chunks in the order in which ranks of their own would start them under
// 1F1B. Two replicas of rank 0, one of rank 1, 2 microbatches:
//
//   rank 0  0F0 .   2F0 .   .   2B0 .   .   0B0 .
//   rank 1  0F1 .   .   2F1 .   .   .   2B1 .   0B1
//   rank 2  .   1F0 1F1 3F0 3B0 3F1 3B1 1B0 1B1 .
Schedule interleaved(const Pipeline &pipeline) {
  checkPlacement(pipeline, StagePlacement::loop, "interleaved");
  if (!hasEqualReplicas(pipeline))
    return makeRowsLike("1f1b", "interleaved", pipeline);
  Pipeline one = columnOf(pipeline);
  checkMicrobatches(one);
  Schedule column = emptySchedule("interleaved", one);
  int64_t ranks = one.ranks(), chunks = one.stages / ranks;
  int64_t turns = one.microbatches * chunks;
  for (int rank = 0; rank < ranks; ++rank) {
    auto &rows = column.ranks[rank].warmUp;
    int64_t ahead = std::min(turns, 2 * (ranks - 1 - rank) + (chunks - 1) * ranks);
    for (int64_t forward = 0; forward < ahead; ++forward)
      rows.push_back(turn(one, rank, Phase::forward, forward));
    for (int64_t backward = 0; backward < turns; ++backward) {
      if (backward + ahead < turns)
        rows.push_back(turn(one, rank, Phase::forward, backward + ahead));
      rows.push_back(turn(one, rank, Phase::backward, backward));
    }
  }
  Schedule schedule = spreadOverReplicas(column, pipeline);
  closeMinibatch(schedule, pipeline);
  return schedule;
}

} // namespace pdc
