#include "compiler/plan/Files.h"
#include "compiler/plan/MakePlan.h"
#include "testsuite/plan/ExamplePlans.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pdc {
namespace {

using testing::HasSubstr;

/// Four units of F = 1, B = 2 in two stages, four microbatches, values of 1000 bytes.
PlanRequest twoStages(const char *schedule) {
  PlanRequest request;
  request.workers = 2;
  request.schedule = schedule;
  request.microbatches = 4;
  request.model = "chain.onnx";
  request.topology = Topology{{{2, {1e6, 0}}}, 0, "cpu"};
  request.microbatchSize = 4;
  return request;
}

const Baseline &baseline(const Plan &plan, const std::string &name) {
  for (const Baseline &baseline : plan.baselines)
    if (baseline.name == name)
      return baseline;
  static const Baseline none;
  ADD_FAILURE() << "no baseline " << name;
  return none;
}

TEST(Baselines, OfAChain) {
  Plan plan = makePlan(chainGraph({1, 1, 1, 1}), twoStages("1f1b"));
  ASSERT_EQ(plan.baselines.size(), 4u);
  // Weights, gradients, optimizer state, the largest workspace, two values with their gradients,
  // and what the units keep of one microbatch.
  const int64_t whole = 400 + 400 + 200 + 5 + 4000 + 40;
  EXPECT_EQ(baseline(plan, "single_device").secondsPerMinibatch, 48);
  EXPECT_EQ(baseline(plan, "single_device").memoryBytes, whole);
  EXPECT_NEAR(baseline(plan, "data_parallel").secondsPerMinibatch, 24 + 400e-6, 1e-9);
  // Buckets of gradients, to send and to receive, and for rounding a few floats of each replica.
  EXPECT_EQ(baseline(plan, "data_parallel").memoryBytes, whole + 2 * 400 + 16 * (2 + 1));
  EXPECT_NEAR(baseline(plan, "model_parallel").secondsPerMinibatch, 48 + 4 * 2e-3, 1e-9);
  // Half of the parameters; the cut value twice for evaluation, beside those of the slot.
  const int64_t half = 200 + 200 + 100 + 5 + 4000 + 2 * 1000;
  EXPECT_EQ(baseline(plan, "model_parallel").memoryBytes, half + 2000 + 20);
  // (m + p - 1) (F + B), and all microbatches kept.
  EXPECT_NEAR(baseline(plan, "gpipe").secondsPerMinibatch, 5 * 6, 0.02);
  EXPECT_EQ(baseline(plan, "gpipe").memoryBytes, half + 4 * (2000 + 20));
  EXPECT_EQ(makePlan(chainGraph({1, 1, 1, 1}), twoStages("gpipe")).stages[0].memoryBytes,
            half + 4 * (2000 + 20));
}

/// Running statistics go through the same buckets, behind the gradients.
TEST(Baselines, ReplicasHaveRoomForRunningStatistics) {
  auto needed = [](int64_t stateBytes) {
    PlanGraph graph = chainGraph({1, 1, 1, 1});
    for (PlanUnit &unit : graph.units)
      unit.stateBytes = stateBytes;
    return baseline(makePlan(graph, twoStages("1f1b")), "data_parallel").memoryBytes;
  };
  EXPECT_EQ(needed(32) - needed(0), 2 * 4 * 32);
  // No more than two buckets of 2 MiB each, with what comes in for them.
  EXPECT_EQ(needed(1 << 22) - needed(0), 2 * ((4 << 20) - 400));
}

TEST(Baselines, GPipeIsThePlanItself) {
  Plan plan = makePlan(chainGraph({1, 2, 3, 4}), twoStages("gpipe"));
  EXPECT_EQ(baseline(plan, "gpipe").secondsPerMinibatch, plan.secondsPerMinibatch);
  Plan other = makePlan(chainGraph({1, 2, 3, 4}), twoStages("1f1b"));
  EXPECT_NEAR(baseline(other, "gpipe").secondsPerMinibatch, plan.secondsPerMinibatch, 1e-9);
}

TEST(Baselines, FitTheMemoryOrSaySo) {
  PlanRequest request = twoStages("1f1b");
  // Enough for two microbatches in flight, or for all with their activations made again.
  request.memoryBytes = 6505 + 4 * 2000 + 20;
  Plan plan = makePlan(chainGraph({1, 1, 1, 1}), request);
  EXPECT_FALSE(plan.stages[0].recompute);
  EXPECT_TRUE(baseline(plan, "gpipe").recompute);
  EXPECT_TRUE(baseline(plan, "gpipe").fits);
  EXPECT_NEAR(baseline(plan, "gpipe").secondsPerMinibatch, 5 * (2 + 6), 0.02);
  request.memoryBytes = 6505 + 2 * 2020;
  plan = makePlan(chainGraph({1, 1, 1, 1}), request);
  EXPECT_FALSE(baseline(plan, "gpipe").fits);
  EXPECT_TRUE(baseline(plan, "single_device").fits);
  EXPECT_THAT(describePlan(plan), HasSubstr("which does not fit"));
}

TEST(Baselines, OfAnAsynchronousPlanArePerMicrobatch) {
  Plan plan = makePlan(chainGraph({1, 1, 1, 1}), twoStages("pipedream"));
  EXPECT_EQ(baseline(plan, "single_device").secondsPerMinibatch, 12);
  // Eight microbatches for two workers.
  EXPECT_NEAR(baseline(plan, "gpipe").secondsPerMinibatch, 9 * 6 / 8.0, 0.02);
}

TEST(Baselines, OfAClosedForm) {
  PlanRequest request = twoStages("auto");
  request.costModel = "pipedream-code";
  request.straight = true;
  Plan plan = makePlan(chainGraph({1, 1, 1, 1}), request);
  EXPECT_NEAR(baseline(plan, "gpipe").secondsPerMinibatch, 9 * 6 / 8.0, 0.02);
  EXPECT_EQ(baseline(plan, "single_device").memoryBytes, 400 + 400 + 200 + 5 + 40);
}

TEST(Bounds, EachForOneReason) {
  Plan plan = makePlan(chainGraph({1, 1, 1, 1.5}), twoStages("1f1b"));
  EXPECT_EQ(plan.bounds.work, 4 * 13.5 / 2);
  EXPECT_EQ(plan.bounds.balance, 4 * 7.5);
  // The heavy stage waits for one forward pass of 2 and for nothing else; the light one ends last.
  EXPECT_NEAR(plan.bounds.bubble, 2 + 4 * 7.5 + 4, 1e-3);
  EXPECT_NEAR(plan.bounds.links, 4e-3, 1e-12);
  EXPECT_LE(plan.bounds.bubble, plan.secondsPerMinibatch);
  EXPECT_THAT(describePlan(plan), HasSubstr("heaviest rank's work"));
}

TEST(Bounds, LinksCarryTheirBytes) {
  PlanRequest request = twoStages("1f1b");
  request.topology->levels[0].link.bytesPerSecond = 100;
  Plan slow = makePlan(chainGraph({1, 1, 1, 1}), request);
  EXPECT_NEAR(slow.bounds.links, 40, 1e-9);
  EXPECT_GE(slow.secondsPerMinibatch, slow.bounds.links);
  request.replicas = {2};
  // Data parallelism sends nothing but gradients: each of the two ranks half of 400 bytes, twice.
  EXPECT_NEAR(makePlan(chainGraph({1, 1, 1, 1}), request).bounds.links, 4, 1e-9);
}

TEST(Bounds, HoldForDrawnGraphs) {
  std::mt19937 random(7);
  for (int round = 0; round < 100; ++round) {
    int workers = 1 + static_cast<int>(random() % 4);
    PlanGraph graph = randomGraph(workers + static_cast<int>(random() % 8), random);
    const char *names[] = {"gpipe", "1f1b", "pipedream", "zb-h1", "zb-h2"};
    PlanRequest request = twoStages(names[round % 5]);
    request.workers = workers;
    request.topology =
        Topology{{{workers, {10.0 + static_cast<double>(random() % 1000), 0.1}}}, 0, "cpu"};
    Plan plan = makePlan(graph, request);
    for (double bound :
         {plan.bounds.work, plan.bounds.balance, plan.bounds.bubble, plan.bounds.links})
      EXPECT_GE(plan.secondsPerMinibatch, bound * (1 - 1e-9)) << plan.scheduleName << " " << round;
    Plan read = parsePlan(printPlan(plan), "plan.json");
    EXPECT_EQ(read.bounds.bubble, plan.bounds.bubble);
    ASSERT_EQ(read.baselines.size(), plan.baselines.size());
    EXPECT_EQ(read.baselines[3].memoryBytes, plan.baselines[3].memoryBytes);
  }
}

TEST(Baselines, TheVerdictNamesTheFasterWay) {
  Plan plan = makePlan(chainGraph({1, 1, 1, 1}), twoStages("1f1b"));
  EXPECT_THAT(describePlan(plan), HasSubstr("pipelining does not pay: data parallelism is 25.0% "
                                            "faster; --stages 2 --microbatches 2 is that plan"));
  Plan even = plan;
  for (Baseline &baseline : even.baselines)
    if (baseline.name == "data_parallel")
      baseline.secondsPerMinibatch = plan.secondsPerMinibatch * 1.003;
  EXPECT_THAT(describePlan(even), HasSubstr("pipelining does not pay: data parallelism is as fast; "
                                            "--stages 2 --microbatches 2 is that plan"));
  PlanRequest odd = twoStages("1f1b");
  odd.microbatches = 3;
  odd.microbatchSize = 5;
  EXPECT_THAT(
      describePlan(makePlan(chainGraph({1, 1, 1, 1}), odd)),
      HasSubstr("its replicas need equal parts of a minibatch: --stages 2 --minibatch 20 is "
                "the nearest plan"));
  odd.microbatchSize = 6;
  Plan smaller = makePlan(chainGraph({1, 1, 1, 1}), odd);
  EXPECT_THAT(describePlan(smaller),
              HasSubstr("% faster at most, where its smaller microbatches take no longer for each "
                        "sample: --stages 2\n"));
  for (Baseline &baseline : smaller.baselines)
    baseline.isPlanned = baseline.name == "data_parallel";
  EXPECT_THAT(describePlan(parsePlan(printPlan(smaller), "plan.json")),
              HasSubstr("% faster: --stages 2 --microbatches 1\n"));
  PlanRequest slow = twoStages("1f1b");
  slow.topology->levels[0].link.bytesPerSecond = 10;
  EXPECT_THAT(describePlan(makePlan(chainGraph({1, 1, 1, 1}), slow)),
              HasSubstr("several devices do not pay: one alone is "));
  PlanRequest request = twoStages("1f1b");
  request.memoryBytes = 5045;
  PlanGraph graph = chainGraph({1, 1, 1, 1});
  for (PlanValue &value : graph.values)
    value.bytes = 1;
  renewGradients(graph);
  for (PlanUnit &unit : graph.units)
    unit.parameterBytes = 2000;
  EXPECT_THAT(describePlan(makePlan(graph, request)),
              HasSubstr("data parallelism does not fit the memory of a device"));
}

} // namespace
} // namespace pdc
