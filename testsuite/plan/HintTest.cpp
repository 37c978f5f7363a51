#include "compiler/plan/Files.h"
#include "compiler/plan/Hints.h"
#include "compiler/plan/MakePlan.h"
#include "testsuite/plan/ExamplePlans.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pdc {
namespace {

using testing::HasSubstr;

PlanRequest flat(int workers, const char *schedule, int64_t microbatches, double bandwidth = 1e6) {
  PlanRequest request;
  request.workers = workers;
  request.schedule = schedule;
  request.microbatches = microbatches;
  request.topology = Topology{{{workers, {bandwidth, 0}}}, 0, "cpu"};
  return request;
}

Plan planWithHints(const PlanGraph &graph, const PlanRequest &request) {
  Plan plan = makePlan(graph, request);
  plan.hints = findHints(plan, graph, request);
  return plan;
}

double gainOf(const Plan &plan, const std::string &change) {
  for (const PlanHelp &help : plan.hints.helps)
    if (help.change == change)
      return help.gain;
  return 0;
}

TEST(Hints, NameTheHeaviestStage) {
  PlanRequest request = flat(2, "1f1b", 16);
  Plan plan = planWithHints(chainGraph({1, 1, 4}), request);
  // 12 seconds against a mean of 9, all of them one unit's.
  EXPECT_EQ(plan.hints.bottleneck, "stage 1 is 33% over the mean; n2 is 100% of it");
  // A second rank for it: stages of 6 and of 12 / 2 seconds for each microbatch, after one forward
  // and before one backward pass of the first; 2 + 16 * 12 + 4 without.
  PlanRequest more = flat(3, "1f1b", 16);
  more.replicas = {1, 2};
  double with = makePlan(chainGraph({1, 1, 4}), more).secondsPerMinibatch;
  EXPECT_NEAR(gainOf(plan, "--gpus 3 --stages 1-2"), plan.secondsPerMinibatch / with - 1, 1e-9);
  EXPECT_GT(gainOf(plan, "--gpus 3 --stages 1-2"), 0.5);
  EXPECT_THAT(describePlan(plan), HasSubstr("would help: --gpus 3 --stages 1-2: "));
  Plan read = parsePlan(printPlan(plan), "plan.json");
  EXPECT_EQ(read.hints.bottleneck, plan.hints.bottleneck);
  EXPECT_EQ(read.hints.helps.size(), plan.hints.helps.size());
}

TEST(Hints, NameTheBubble) {
  Plan plan = planWithHints(chainGraph({1, 1, 1, 1}), flat(4, "1f1b", 4));
  // 7 of (m + p - 1) slots, of which 4 compute.
  EXPECT_EQ(plan.hints.bottleneck, "filling and emptying the pipeline takes 43% of the time");
  // 8 of 11 instead of 4 of 7.
  EXPECT_NEAR(gainOf(plan, "twice as many microbatches per update"), 14.0 / 11 - 1, 1e-3);
}

/// What auto chose stays as it is but for the change: two stages per rank, whose bubble is half a
/// microbatch.
TEST(Hints, KeepTheStagesPerRank) {
  PlanGraph graph = chainGraph({1, 1, 1, 1});
  for (PlanUnit &unit : graph.units)
    unit.backwardWeightSeconds = 0;
  Plan plan = planWithHints(graph, flat(2, "auto", 8));
  ASSERT_EQ(plan.stages.size(), 4u);
  double expected = (8.5 / 8) / (16.5 / 16) - 1;
  EXPECT_NEAR(gainOf(plan, "twice as many microbatches per update"), expected, 1e-3);
}

TEST(Hints, NameTheLinks) {
  Plan plan = planWithHints(chainGraph({1, 1, 1, 1}), flat(2, "1f1b", 8, 100));
  EXPECT_THAT(plan.hints.bottleneck, HasSubstr("waiting for transfers takes "));
  EXPECT_THAT(plan.hints.bottleneck, HasSubstr("the largest is v1, from stage 0 to 1"));
  EXPECT_GT(gainOf(plan, "--stages 2"), 0.2);
}

/// Ranks of one machine share its cores, in the plan and in what would be better.
TEST(Hints, AdviseNoMoreRanksThanCores) {
  PlanRequest request;
  request.device = "cpu";
  request.workers = 2;
  request.schedule = "1f1b";
  request.microbatches = 16;
  for (int cores : {2, 3}) {
    request.cores = cores;
    Plan plan = planWithHints(chainGraph({1, 1, 4}), request);
    EXPECT_EQ(gainOf(plan, "--gpus 3 --stages 1-2") > 0, cores == 3) << cores;
  }
}

TEST(Hints, LeaveOutWhatGainsNothing) {
  Plan alone = planWithHints(chainGraph({1, 1}), flat(1, "1f1b", 1));
  EXPECT_THAT(alone.hints.bottleneck, HasSubstr("none: the devices compute all the time"));
  for (const PlanHelp &help : alone.hints.helps)
    EXPECT_GE(help.gain, 0.02) << help.change;
  EXPECT_EQ(gainOf(alone, "links of twice the bandwidth"), 0);
}

} // namespace
} // namespace pdc
