#include "compiler/plan/Connections.h"
#include "compiler/plan/Cut.h"
#include "compiler/plan/MakePlan.h"
#include "compiler/schedule/Arrangement.h"
#include "compiler/schedule/Schedules.h"
#include "testsuite/Refusal.h"
#include "testsuite/plan/ExamplePlans.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <random>

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

/// A use in each of three stages, the first with two replicas: the gradient of each use goes to all
/// other ranks that hold the weight, from the replicas of its stage in turn.
TEST(Connections, OfTiedWeights) {
  const std::vector<std::vector<int>> ranks = {{0, 1}, {2}, {3}};
  std::set<RankEdge> edges;
  addTiedEdges(ranks, {0, 1, 2}, false, edges);
  EXPECT_EQ(edges,
            (std::set<RankEdge>{{0, 2}, {1, 3}, {2, 0}, {2, 1}, {2, 3}, {3, 0}, {3, 1}, {3, 2}}));
  // The value goes there with each microbatch, and a gradient back.
  edges.clear();
  addTiedEdges(ranks, {0, 2}, true, edges);
  EXPECT_EQ(edges, (std::set<RankEdge>{{0, 3}, {1, 3}, {3, 0}, {3, 1}}));
}

/// The first and the last of three stages receive of each other what no neighbour sends.
TEST(Connections, OfTiedWeightsTakeMemoryOfThePlan) {
  PlanRequest request;
  request.workers = 3;
  request.microbatches = 4;
  PlanGraph graph = chainGraph({1, 1, 1});
  graph.tied = {{{0, 2}, 1000, 1000, 1000}};
  for (const char *schedule : {"1f1b", "pipedream"}) {
    request.schedule = schedule;
    request.device = "cpu";
    const Plan without = makePlan(graph, request);
    request.device = "cuda";
    const Plan plan = makePlan(graph, request);
    for (int stage = 0; stage < 3; ++stage)
      EXPECT_EQ(plan.stages[stage].memoryBytes - without.stages[stage].memoryBytes,
                2 * connectionBytes)
          << schedule << ", stage " << stage;
  }
}

/// The fastest cut has two units of 100 MiB in its first stage, which leaves no room for the
/// connection to the last stage that uses its weight.
TEST(Connections, OfTiedWeightsLeaveRoomInTheCut) {
  PlanRequest request;
  request.workers = 3;
  request.schedule = "1f1b";
  request.microbatches = 4;
  request.device = "cuda";
  request.memoryBytes = int64_t(250) << 20;
  PlanGraph graph = chainGraph({1, 1, 2, 2});
  graph.units[0].parameterBytes = graph.units[1].parameterBytes = int64_t(100) << 20;
  using Units = std::vector<std::string>;
  EXPECT_EQ(makePlan(graph, request).stages[0].units, (Units{"u0", "u1"}));
  graph.tied = {{{0, 3}, 1000, 1000, 1000}};
  EXPECT_EQ(makePlan(graph, request).stages[0].units, (Units{"u0"}));
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

/// Values that many later stages read: NCCL has too few queues for an edge each, and not every
/// schedule is proven with the waits of pairs. Another is taken where it is free to be.
TEST(Connections, OfWhatIsChosenCanBeMade) {
  int unconnected = 0;
  for (unsigned seed = 0; seed < 12; ++seed) {
    std::mt19937 random(seed);
    const PlanGraph graph = randomGraph(24, random);
    PlanRequest request;
    request.workers = 8;
    request.device = "cuda";
    request.microbatches = 16;
    auto isConnected = [](const Plan &plan) {
      return haveQueues(plan.schedule.ranksOfStage, rankEdges(plan, {})) ||
             !findDeadlockOfPairs(plan.schedule);
    };
    request.schedule = "auto";
    EXPECT_TRUE(isConnected(makePlanOfPrograms(graph, request))) << seed;
    for (const char *schedule : {"1f1b", "zb-h2", "gpipe"}) {
      request.schedule = schedule;
      const std::string why = refusal([&] { makePlanOfPrograms(graph, request); });
      unconnected += why == whyNotConnected();
      EXPECT_TRUE(why == whyNotConnected() || why == "accepted") << why;
    }
  }
  EXPECT_GT(unconnected, 0);
}

/// On GPUs those of a microbatch are on their way beside the slots.
TEST(Connections, AndProgramsHaveRoomForInputsOnTheirWay) {
  for (const char *device : {"cpu", "cuda"})
    for (const char *schedule : {"1f1b", "pipedream"}) {
      PlanRequest request;
      request.workers = 2;
      request.schedule = schedule;
      request.microbatches = 4;
      request.device = device;
      PlanGraph graph = chainGraph({1, 1});
      const Plan without = makePlan(graph, request);
      graph.units[0].inputBytes = 1000;
      const int64_t copies = without.schedule.slots[0] + evaluationCopies;
      const int64_t beside = device == std::string("cuda") ? 1 : 0;
      EXPECT_EQ(makePlan(graph, request).stages[0].memoryBytes - without.stages[0].memoryBytes,
                1000 * (copies + beside))
          << device << ", " << schedule;
    }
}

/// What CUDA takes is kept from plans, unless the user says what they may take.
TEST(Connections, AndProgramsLeaveRoomForCuda) {
  PlanRequest request;
  request.workers = 1;
  request.device = "cuda";
  request.recompute.kind = RecomputeChoice::none;
  PlanGraph graph = chainGraph({1});
  graph.units[0].parameterBytes = 0;
  auto withWeights = [&](int64_t bytes) {
    graph.units[0].parameterBytes += bytes - makePlan(graph, request).stages[0].memoryBytes;
  };
  withWeights(int64_t(77) << 30);
  EXPECT_EQ(makePlan(graph, request).stages[0].memoryBytes, int64_t(77) << 30);
  graph.units[0].parameterBytes += 1;
  EXPECT_THAT(refusal([&] { makePlan(graph, request); }), testing::HasSubstr("too few"));
  request.memoryBytes = int64_t(79) << 30;
  makePlan(graph, request);
}

} // namespace pdc
