#include "compiler/schedule/Rhythm.h"

#include <algorithm>
#include <map>

namespace pdc {

namespace {

/// The rows of one rank, whose first chunk stands on the way down the V and whose second on the way
/// up.
class FoldedRows {
public:
  FoldedRows(const Pipeline &pipeline, int rank)
      : ranks(pipeline.ranks()), rank(rank), microbatches(pipeline.microbatches) {}

  std::vector<Step> make();

private:
  static constexpr int down = 0, up = 1;

  /// Runs the next microbatch of a chunk; those behind the last are left out.
  void run(int chunk, Phase phase) {
    int64_t next = count[{chunk, phase}]++;
    if (next < microbatches)
      rows.push_back(runStep(chunk == down ? rank : 2 * ranks - 1 - rank, phase, next));
  }
  void runBackward(int chunk) {
    run(chunk, Phase::backwardInput);
    run(chunk, Phase::backwardWeight);
  }
  void fill();
  void steady();
  void empty();

  int ranks, rank;
  int64_t microbatches;
  std::map<std::pair<int, Phase>, int64_t> count;
  std::vector<Step> rows;
};

/// As many microbatches on their way down as the first gradient needs to come back.
void FoldedRows::fill() {
  for (int i = 0; i < 2 * (ranks - rank) - 1; ++i)
    run(down, Phase::forward);
  for (int i = 0; i < rank; ++i) {
    run(up, Phase::forward);
    run(down, Phase::forward);
  }
  for (int i = 0; i < ranks - rank; ++i) {
    run(up, Phase::forward);
    runBackward(up);
  }
}

/// One of each. Fewer microbatches than fill the pipeline are the first rows of more.
void FoldedRows::steady() {
  int64_t all = std::max<int64_t>(microbatches, 2 * ranks - 1);
  int64_t &entered = count[{down, Phase::forward}], &risen = count[{up, Phase::forward}];
  while (risen < all) {
    if (entered < all)
      run(down, Phase::forward);
    runBackward(down);
    run(up, Phase::forward);
    runBackward(up);
  }
}

/// Gradients that others wait for come first.
void FoldedRows::empty() {
  for (int i = 0; i < rank; ++i) {
    run(down, Phase::backwardInput);
    run(up, Phase::backwardInput);
  }
  for (int i = 0; i < ranks - rank; ++i)
    runBackward(down);
  for (int chunk : {up, down})
    while (count[{chunk, Phase::backwardWeight}] < count[{chunk, Phase::backwardInput}])
      run(chunk, Phase::backwardWeight);
}

std::vector<Step> FoldedRows::make() {
  fill();
  steady();
  empty();
  return std::move(rows);
}

} // namespace

// 2 ranks, 4 microbatches; rank r has stages r and 2p-1-r, so that a microbatch goes down the ranks
// and up again. Once full, every rank runs one of each: F, I and W of the first chunk, then of the
// second.
//
//   rank 0  0F0 0F1 0F2 3F0 3I0 3W0 3F1 3I1 3W1 0F3 0I0 0W0 3F2 3I2 3W2 0I1 0W1 3F3 3I3 3W3 ...
//   rank 1  .   1F0 2F0 1F1 2F1 2I0 2W0 1F2 1I0 1W0 2F2 2I1 2W1 1F3 1I1 1W1 2F3 2I2 2W2 1I2 ...
//
// Each rank holds 2p chunks' activations at most, as many as 1F1B's first. Idle per step, which
// ends in a barrier: (p-1)F of one chunk where F = I = W and m >= 2p-1.
//
// Where each rank has replicas, all of them run these rows on microbatches of their own. Where
// ranks have different numbers of them, each takes its two stages in the order in which ranks of
// their own would start them under zb-h1.
Schedule zeroBubbleV(const Pipeline &pipeline) {
  checkPlacement(pipeline, StagePlacement::fold, "zb-v");
  if (!hasEqualReplicas(pipeline))
    return makeRowsLike("zb-h1", "zb-v", pipeline);
  Pipeline one = columnOf(pipeline);
  Schedule column = emptySchedule("zb-v", one);
  for (int rank = 0; rank < one.ranks(); ++rank)
    column.ranks[rank].warmUp = FoldedRows(one, rank).make();
  Schedule schedule = spreadOverReplicas(column, pipeline);
  closeMinibatch(schedule, pipeline);
  return schedule;
}

} // namespace pdc
