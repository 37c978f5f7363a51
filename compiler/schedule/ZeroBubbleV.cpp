#include "compiler/schedule/Rhythm.h"

#include <algorithm>
#include <array>

namespace pdc {

namespace {

/// The order of one rank, whose first chunk stands on the way down the V and whose second on the
/// way up.
class FoldedOrder {
public:
  FoldedOrder(const Pipeline &column, int rank)
      : ranks(column.ranks()), rank(rank), microbatches(column.microbatches) {}

  RankOrder make();

private:
  static constexpr int down = 0, up = 1;
  static constexpr size_t kBackwardWeight = static_cast<size_t>(Phase::backwardWeight);

  int64_t &countOf(int chunk, Phase phase) { return count[chunk][static_cast<size_t>(phase)]; }

  /// Runs the next microbatch of a chunk; those behind the last are left out.
  void run(int chunk, Phase phase) {
    if (countOf(chunk, phase)++ < microbatches)
      group.push_back({static_cast<uint16_t>(chunk), phase});
  }
  void closeGroup() {
    order.append(group);
    group.clear();
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
  std::array<std::array<int64_t, kBackwardWeight + 1>, 2> count{}; ///< by chunk and phase
  std::vector<OrderedRun> group;
  RankOrder order;
};

/// As many microbatches on their way down as the first gradient needs to come back.
void FoldedOrder::fill() {
  for (int i = 0; i < 2 * (ranks - rank) - 1; ++i) {
    run(down, Phase::forward);
    closeGroup();
  }
  for (int i = 0; i < rank; ++i) {
    run(up, Phase::forward);
    run(down, Phase::forward);
    closeGroup();
  }
  for (int i = 0; i < ranks - rank; ++i) {
    run(up, Phase::forward);
    runBackward(up);
    closeGroup();
  }
}

/// One of each. Fewer microbatches than fill the pipeline are the first rows of more.
void FoldedOrder::steady() {
  int64_t all = std::max<int64_t>(microbatches, 2 * ranks - 1);
  int64_t &entered = countOf(down, Phase::forward), &risen = countOf(up, Phase::forward);
  while (risen < all) {
    if (entered < all)
      run(down, Phase::forward);
    runBackward(down);
    run(up, Phase::forward);
    runBackward(up);
    closeGroup();
  }
}

/// Gradients that others wait for come first.
void FoldedOrder::empty() {
  for (int i = 0; i < rank; ++i) {
    run(down, Phase::backwardInput);
    run(up, Phase::backwardInput);
    closeGroup();
  }
  for (int i = 0; i < ranks - rank; ++i) {
    runBackward(down);
    closeGroup();
  }
  for (int chunk : {up, down})
    while (countOf(chunk, Phase::backwardWeight) < countOf(chunk, Phase::backwardInput)) {
      run(chunk, Phase::backwardWeight);
      closeGroup();
    }
}

RankOrder FoldedOrder::make() {
  fill();
  steady();
  empty();
  return std::move(order);
}

} // namespace

RankOrder zeroBubbleVOrder(const Pipeline &column, int rank) {
  return FoldedOrder(column, rank).make();
}

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
  return hasEqualReplicas(pipeline) ? spreadOverReplicas("zb-v", pipeline)
                                    : makeRowsLike("zb-h1", "zb-v", pipeline);
}

} // namespace pdc
