#include "compiler/Error.h"
#include "compiler/schedule/Rhythm.h"
#include "compiler/schedule/Schedules.h"

#include <algorithm>

namespace pdc {

static void checkMicrobatches(const Pipeline &pipeline) {
  int64_t ranks = pipeline.ranks(), found = pipeline.microbatches, below = found / ranks * ranks;
  if (found % ranks == 0)
    return;
  throw Error("schedule interleaved needs a multiple of its " + std::to_string(ranks) +
              " ranks as microbatches, found " + std::to_string(found) + "; use " +
              (below ? std::to_string(below) + " or " : "") + std::to_string(below + ranks));
}

/// A rank takes its chunks in turns of `ranks` microbatches each.
RankOrder interleavedOrder(const Pipeline &column, int rank) {
  checkMicrobatches(column);
  int64_t ranks = column.ranks(), chunks = column.stages / ranks;
  int64_t turns = column.microbatches * chunks;
  int64_t ahead = std::min(turns, 2 * (ranks - 1 - rank) + (chunks - 1) * ranks);
  auto chunkOf = [&](int64_t turn) { return static_cast<uint16_t>(turn / ranks % chunks); };
  RankOrder order;
  std::vector<OrderedRun> group;
  for (int64_t turn = 0; turn < turns + ahead; ++turn) {
    group.clear();
    if (turn < turns)
      group.push_back({chunkOf(turn), Phase::forward});
    if (turn >= ahead)
      group.push_back({static_cast<uint16_t>(chunks - 1 - chunkOf(turn - ahead)), Phase::backward});
    order.append(group);
  }
  return order;
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
  return hasEqualReplicas(pipeline) ? spreadOverReplicas("interleaved", pipeline)
                                    : makeRowsLike("1f1b", "interleaved", pipeline);
}

} // namespace pdc
