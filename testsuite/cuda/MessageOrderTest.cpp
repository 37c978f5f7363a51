#include "runtime/cuda/NcclTransport.h"

#include <gtest/gtest.h>

namespace pdc::runtime::cuda {

namespace {

/// Rank 0 sends activations (tag 5) and receives their gradients (tag 6); rank 1 the other way.
struct Pair {
  int peer[1];
  Transfer transfers[2];
  Step step[4];
  Program program;

  Pair(int rank, bool swapped)
      : peer{1 - rank},
        transfers{{"x", ElementType::f32, peer, 5, rank, Phase::forward, {0, 0}, 64},
                  {"dx", ElementType::bf16, peer, 6, rank, Phase::backward, {0, 64}, 32}},
        step{row(rank == 0, swapped ? 1 : 0, 0), row(rank == 0, swapped ? 0 : 1, 1),
             row(rank == 0, 0, 1), row(rank != 0, 1, 0)},
        program{} {
    program.rank = rank;
    program.ranks = 2;
    program.transfers = transfers;
    program.training.step = step;
  }
  static Step row(bool sends, int transfer, int64_t microbatch) {
    return {sends ? StepKind::send : StepKind::receive, Phase::forward, 0, microbatch, transfer};
  }
};

} // namespace

/// What one rank says that it sends, the other says that it receives; tags, bytes and element
/// types, in order.
TEST(MessageOrder, IsTheSameOnBothEnds) {
  const Pair first(0, false), second(1, false);
  EXPECT_EQ(messageOrder(first.program, 0, 1), "| 5/64/0 6/32/5 5/64/0 ");
  EXPECT_EQ(messageOrder(second.program, 0, 1), messageOrder(first.program, 0, 1));
  EXPECT_EQ(messageOrder(first.program, 1, 0), "| 6/32/5 ");
  EXPECT_EQ(messageOrder(second.program, 1, 0), messageOrder(first.program, 1, 0));
}

/// Messages in another order would meet the wrong ones: NCCL knows no tags.
TEST(MessageOrder, ShowsRowsInAnotherOrder) {
  const Pair first(0, false), second(1, true);
  EXPECT_NE(messageOrder(second.program, 0, 1), messageOrder(first.program, 0, 1));
}

/// Rank 2 holds the weight whose gradient rank 0 sums with rank 1, another replica of its stage:
/// one of them tells it.
TEST(MessageOrder, TellsWhoSendsToWhom) {
  Pair first(0, false), second(1, false), third(2, false);
  Memory summed{}, gathered{};
  summed.name = gathered.name = "w/gradient";
  summed.role = Role::gradient;
  gathered.role = Role::gathered;
  const int replicas[] = {0, 1};
  StageInfo stage{};
  stage.ranks = replicas;
  first.program.memories = second.program.memories = {&summed, 1};
  first.program.stages = {&stage, 1};
  third.program.memories = {&gathered, 1};
  third.program.training.step = {};
  using Edges = std::vector<std::vector<int>>;
  EXPECT_EQ(
      edgesOf({receivers(first.program), receivers(second.program), receivers(third.program)}),
      (Edges{{1, 2}, {0}, {}}));
  EXPECT_EQ(edgesOf({otherReplicas(first.program), "", ""}), (Edges{{1}, {}, {}}));
}

} // namespace pdc::runtime::cuda
