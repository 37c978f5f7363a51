#include "compiler/Error.h"
#include "compiler/plan/Files.h"
#include "compiler/plan/MakePlan.h"
#include "testsuite/EveryCase.h"
#include "testsuite/plan/ExampleGraphs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pdc {
namespace {

using testing::HasSubstr;

PlanRequest automatic(int workers, int64_t microbatches, double bandwidth = 1e6) {
  PlanRequest request;
  request.workers = workers;
  request.microbatches = microbatches;
  request.topology = Topology{{{workers, {bandwidth, 0}}}, 0, "cpu"};
  request.microbatchSize = 4;
  return request;
}

PlanRequest named(PlanRequest request, const char *schedule) {
  request.schedule = schedule;
  request.openReplicas = false;
  return request;
}

TEST(Choice, WeightGradientsFillTheBubble) {
  Plan plan = makePlan(chainGraph({1, 1, 1, 1}), automatic(4, 8));
  EXPECT_EQ(plan.scheduleName, "zb-h1");
  // m (F + B) and (p - 1) (F + I - W) idle, against (p - 1) (F + B).
  EXPECT_NEAR(plan.secondsPerMinibatch, 8 * 3 + 3 * 1, 0.05);
  ASSERT_EQ(plan.candidates.size(), 5u);
  EXPECT_NEAR(plan.candidates[0].secondsPerMinibatch, (8 + 3) * 3, 0.05);
  EXPECT_THAT(describePlan(plan), HasSubstr("1f1b 33 s"));
  Plan read = parsePlan(printPlan(plan), "plan.json");
  EXPECT_EQ(read.candidates.size(), 5u);
}

TEST(Choice, NoWayIsBetterByMoreThanItsPrice) {
  std::mt19937 random(5);
  for (int round = 0; round < 60; round += kEveryCase) {
    int workers = 1 + static_cast<int>(random() % 4);
    PlanGraph graph = randomGraph(workers + static_cast<int>(random() % 8), random);
    PlanRequest request = automatic(workers, 1 + round % 8, 30);
    Plan plan = makePlan(graph, request);
    EXPECT_GE(plan.secondsPerMinibatch, plan.boundSecondsPerMinibatch * (1 - 1e-9));
    for (const char *name : {"1f1b", "gpipe", "zb-h1", "zb-h2"})
      EXPECT_LE(plan.secondsPerMinibatch,
                1.02 * makePlan(graph, named(request, name)).secondsPerMinibatch)
          << name << " " << round;
    // The simplest stands unless something gains.
    EXPECT_LE(plan.secondsPerMinibatch,
              makePlan(graph, named(request, "1f1b")).secondsPerMinibatch);
  }
}

TEST(Choice, OfTheSameSpeedTheSimplest) {
  EXPECT_EQ(makePlan(chainGraph({1, 1}), automatic(1, 4)).scheduleName, "1f1b");
  // Nothing is left for weight gradients where there are none.
  PlanGraph graph = chainGraph({1, 1, 1});
  for (PlanUnit &unit : graph.units)
    unit.backwardWeightSeconds = 0;
  EXPECT_EQ(makePlan(graph, automatic(3, 6)).scheduleName, "1f1b");
}

TEST(Choice, WhatFitsTheMemory) {
  PlanGraph graph = chainGraph({1, 1, 1, 1});
  for (PlanUnit &unit : graph.units)
    unit.stashBytes = 100'000;
  PlanRequest request = automatic(4, 8);
  request.recompute.kind = RecomputeChoice::none;
  // Four microbatches in flight at the first stage fit, eight or the seven of zb-h2 do not.
  request.memoryBytes = 4 * 110'000;
  Plan plan = makePlan(graph, request);
  for (const PlanStage &stage : plan.stages)
    EXPECT_LE(stage.memoryBytes, request.memoryBytes);
  EXPECT_THAT(plan.candidates[1].refusal, HasSubstr("too few"));
  EXPECT_EQ(plan.candidates[1].name, "gpipe");
  EXPECT_THAT(describePlan(plan), HasSubstr("gpipe refused"));
  request.memoryBytes = 1000;
  try {
    makePlan(graph, request);
    FAIL() << "accepted";
  } catch (const Error &error) {
    EXPECT_THAT(error.what(), HasSubstr("a device has 1000"));
  }
}

TEST(Choice, DataParallelismWhereItIsFaster) {
  PlanGraph graph = chainGraph({1, 1, 1, 4});
  PlanRequest request = automatic(4, 8);
  EXPECT_EQ(makePlan(graph, request).stages.size(), 4u);
  request.openReplicas = true;
  Plan plan = makePlan(graph, request);
  ASSERT_EQ(plan.stages.size(), 1u);
  EXPECT_EQ(plan.stages[0].replicas, 4);
  EXPECT_EQ(plan.microbatches, 2);
  EXPECT_EQ(plan.minibatch, 8 * 4);
  EXPECT_NEAR(plan.secondsPerMinibatch, plan.dataParallelSecondsPerMinibatch, 1e-3);
  EXPECT_THAT(describePlan(plan), HasSubstr("the plan is data parallelism"));
  // Gradients that take longer than the bubble.
  for (PlanUnit &unit : graph.units)
    unit.gradientBytes = unit.parameterBytes = 100'000'000;
  EXPECT_EQ(makePlan(graph, request).stages.size(), 4u);
  // Seven microbatches cannot be shared among four.
  request.microbatches = 7;
  EXPECT_EQ(makePlan(chainGraph({1, 1, 1, 4}), request).stages.size(), 4u);
}

} // namespace
} // namespace pdc
