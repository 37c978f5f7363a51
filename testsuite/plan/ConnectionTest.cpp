#include "compiler/plan/Connections.h"
#include "compiler/plan/MakePlan.h"
#include "compiler/schedule/Schedules.h"
#include "testsuite/Refusal.h"
#include "testsuite/plan/ExampleGraphs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

namespace pdc {

/// As routing says it, one microbatch after another.
TEST(Connections, MicrobatchesTakeTurnsAtBothEnds) {
  for (int from = 1; from <= 4; ++from)
    for (int to = 1; to <= 4; ++to) {
      std::vector<std::vector<int>> ranks(2);
      for (int rank = 0; rank < from + to; ++rank)
        ranks[rank >= from].push_back(rank);
      std::set<RankEdge> expected;
      for (int microbatch = 0; microbatch < 100; ++microbatch) {
        int first = microbatch % from, last = from + microbatch % to;
        expected.insert({first, last});
        expected.insert({last, first});
      }
      EXPECT_EQ(rankEdges(ranks, chainEdges(2)), expected) << from << " to " << to;
      EXPECT_EQ(countReplicaPairs(ranks), (from * (from - 1) + to * (to - 1)) / 2);
    }
}

/// The middle of a chain receives from two sides, its ends from one, each replica from the others.
TEST(Connections, TakeMemoryOfThePlan) {
  PlanRequest request;
  request.workers = 3;
  request.schedule = "1f1b";
  request.microbatches = 4;
  const PlanGraph graph = chainGraph({1, 1, 1});
  const Plan without = makePlan(graph, request);
  request.device = "cuda";
  const Plan plan = makePlan(graph, request);
  const int received[] = {1, 2, 1};
  for (int stage = 0; stage < 3; ++stage)
    EXPECT_EQ(plan.stages[stage].memoryBytes - without.stages[stage].memoryBytes,
              received[stage] * connectionBytes);
  EXPECT_EQ(
      connectionBytesOfStages("cuda", {{0, 1, 2}, {3}}, rankEdges({{0, 1, 2}, {3}}, chainEdges(2))),
      (std::vector<int64_t>{3 * connectionBytes, 3 * connectionBytes}));
}

TEST(Connections, OfManyReplicas) {
  std::vector<int> ranks(4096);
  std::iota(ranks.begin(), ranks.end(), 0);
  EXPECT_EQ(connectionBytesOfStages("cuda", {ranks, ranks}, {}),
            (std::vector<int64_t>{4095 * connectionBytes, 0}));
  EXPECT_EQ(countReplicaPairs({ranks, ranks}), 4096 * 4095 / 2);
}

/// A limit that all but the connections would fit is refused by the planner.
TEST(Connections, CountAgainstTheLimit) {
  PlanRequest request;
  request.workers = 3;
  request.schedule = "1f1b";
  request.microbatches = 4;
  request.device = "cuda";
  request.recompute.kind = RecomputeChoice::none;
  const PlanGraph graph = chainGraph({1, 1, 1});
  request.memoryBytes = makePlan(graph, request).stages[1].memoryBytes;
  EXPECT_EQ(makePlan(graph, request).stages[1].memoryBytes, request.memoryBytes);
  request.memoryBytes -= 1;
  EXPECT_THAT(refusal([&] { makePlan(graph, request); }), testing::HasSubstr("1 bytes too few"));
}

} // namespace pdc
