#include "compiler/plan/MakePlan.h"
#include "testsuite/EveryCase.h"
#include "testsuite/Refusal.h"
#include "testsuite/plan/ExamplePlans.h"

#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pdc {
namespace {

using testing::HasSubstr;

/// Of a named schedule the replicas that it leaves open, of at least two stages; `auto` is no
/// slower, and takes one stage too.
TEST(OpenReplicas, ANamedScheduleGetsItsBestReplicas) {
  int replicated = 0;
  for (int round = 0; round < 40; round += kEveryCase) {
    std::mt19937 random = drawsOf(11, round);
    int workers = 2 + static_cast<int>(random() % 5);
    PlanGraph graph = randomGraph(workers + static_cast<int>(random() % 6), random);
    PlanRequest request = automatic(workers, 12, 30);
    request.openReplicas = true;
    const double least = makePlan(graph, request).secondsPerMinibatch * (1 - 1e-6);
    for (const char *schedule : {"1f1b", "gpipe", "zb-h1", "zb-h2", "interleaved", "zb-v"}) {
      request.schedule = schedule;
      const bool hasTwo = schedule == std::string("interleaved") || schedule == std::string("zb-v");
      if (hasTwo && (12 % workers || 2 * workers > static_cast<int>(graph.units.size())))
        continue;
      Plan plan = makePlan(graph, request);
      EXPECT_EQ(plan.scheduleName, schedule);
      EXPECT_GT(plan.stages.size(), 1u) << schedule;
      EXPECT_EQ(plan.minibatch, 12 * 4) << schedule;
      EXPECT_LE(least, plan.secondsPerMinibatch) << schedule << ", round " << round;
      PlanRequest straight = named(request, schedule);
      EXPECT_LE(plan.secondsPerMinibatch, makePlan(graph, straight).secondsPerMinibatch * 1.000001)
          << schedule << ", round " << round;
      replicated += plan.stages[0].replicas > 1 || plan.stages.back().replicas > 1;
    }
  }
  if (kEveryCase == 1) {
    EXPECT_GT(replicated, 0);
  }
}

/// PipeDream's replicas, under the player as under its own cost model: three share what takes three
/// times as long and has small weights, one has the classifier's. Four stages hold 9 s at least.
TEST(OpenReplicas, PipedreamGetsUnequalReplicas) {
  PlanGraph graph = chainGraph({4.5, 4.5, 4.5, 4.5, 6});
  for (PlanUnit &unit : graph.units)
    unit.gradientBytes = unit.parameterBytes = 1;
  graph.units.back().gradientBytes = graph.units.back().parameterBytes = 1'000'000;
  for (PlanValue &value : graph.values)
    value.bytes = 1;
  renewGradients(graph);
  PlanRequest request = automatic(4, 1, 1e5);
  request.openReplicas = true;
  request.schedule = "pipedream";
  Plan plan = makePlan(graph, request);
  ASSERT_EQ(plan.stages.size(), 2u);
  EXPECT_EQ(plan.stages[0].replicas, 3);
  EXPECT_EQ(plan.stages[1].replicas, 1);
  // Backward takes twice as long as forward: 18 and 6 s of three each, on three devices and one.
  EXPECT_NEAR(plan.secondsPerMinibatch, 18, 0.1);
  EXPECT_TRUE(hasTried(plan, "pipedream on 2-2"));
  // An update of so many samples: microbatches of each replica of the first stage.
  EXPECT_EQ(plan.minibatch, 3 * 4);
  request.inputReplicas = 2;
  EXPECT_EQ(makePlan(graph, request).stages[0].replicas, 2);
  request.inputReplicas = 1;
  EXPECT_EQ(makePlan(graph, request).stages[0].replicas, 1);
  request.workers = 3;
  request.topology->levels[0].workers = 3;
  request.inputReplicas = 2;
  request.schedule = "1f1b";
  request.microbatches = 7;
  EXPECT_THAT(refusal([&] { makePlan(graph, request); }),
              HasSubstr("no plan has a first stage of 2 replicas"));
}

TEST(OpenReplicas, OfTwoStagesInEveryWay) {
  PlanGraph graph = chainGraph({1, 1, 1, 1, 1, 1, 1});
  PlanRequest request = automatic(7, 1, 1e12);
  request.openReplicas = true;
  request.schedule = "pipedream";
  for (int first = 1; first < 7; ++first) {
    request.inputReplicas = first;
    Plan plan = makePlan(graph, request);
    EXPECT_EQ(plan.stages[0].replicas, first);
    // Seven units of 3 s on seven devices.
    EXPECT_NEAR(plan.secondsPerMinibatch, 3, 0.01) << first;
  }
}

/// Memory is what is wrong with the request, not that eight units are no pipeline of 16 stages.
TEST(OpenReplicas, LongerPipelinesThanUnitsAreNoAnswer) {
  PlanGraph graph = chainGraph(std::vector<double>(8, 1));
  PlanRequest request = automatic(16, 16);
  request.openReplicas = true;
  request.schedule = "1f1b";
  EXPECT_LE(makePlan(graph, request).stages.size(), 8u);
  request.memoryBytes = 100;
  EXPECT_THAT(refusal([&] { makePlan(graph, request); }), HasSubstr("a device has 100 bytes"));
}

TEST(OpenReplicas, RunsOfStagesAreNamed) {
  PlanGraph graph = chainGraph(std::vector<double>(40, 1));
  graph.units[0].forwardSeconds = 4;
  PlanRequest request = automatic(41, 1, 1e12);
  request.openReplicas = true;
  request.schedule = "pipedream";
  EXPECT_TRUE(hasTried(makePlan(graph, request), "pipedream on 1 stage of 2, 39 stages of 1"));
}

/// Of many units long pipelines are left out where short ones are far faster.
TEST(OpenReplicas, ANamedScheduleOfManyUnitsGetsReplicas) {
  PlanGraph graph = chainGraph(std::vector<double>(2'000, 1));
  PlanRequest request = automatic(64, 256, 1e9);
  request.openReplicas = true;
  request.schedule = "2bw";
  for (PlanValue &value : graph.values)
    value.bytes = 30'000'000'000;
  renewGradients(graph);
  Plan plan = makePlan(graph, request);
  EXPECT_EQ(plan.scheduleName, "2bw");
  EXPECT_EQ(plan.stages.size(), 2u);
  EXPECT_EQ(plan.stages[0].replicas, 32);
  EXPECT_FALSE(hasTried(plan, "64 stages"));
  EXPECT_THAT(plan.untried, HasSubstr("longer pipelines than 2bw on "));
}

} // namespace
} // namespace pdc
