#include "compiler/plan/Files.h"
#include "compiler/plan/MakePlan.h"
#include "compiler/plan/PlanMemory.h"
#include "compiler/plan/PlannedRows.h"
#include "compiler/report/Report.h"
#include "testsuite/EveryCase.h"
#include "testsuite/Refusal.h"
#include "testsuite/plan/ExamplePlans.h"

#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <iostream>
#include <limits>

namespace pdc {
namespace {

using testing::HasSubstr;

/// Of links on which ways whose rows are as long differ by nothing.
constexpr double kFast = 1e15;

double secondsOf(const Plan &plan, const std::string &way) {
  for (const PlanCandidate &tried : plan.candidates)
    if (tried.name == way && tried.refusal.empty())
      return tried.secondsPerMinibatch;
  ADD_FAILURE() << way << " was not tried";
  return 0;
}

TEST(Choice, WeightGradientsFillTheBubble) {
  Plan plan = makePlan(chainGraph({1, 1, 1, 1}), automatic(4, 8, kFast));
  EXPECT_EQ(plan.scheduleName, "zb-h1");
  // m (F + B) and (p - 1) (F + I - W) idle, against (p - 1) (F + B).
  EXPECT_NEAR(plan.secondsPerMinibatch, 8 * 3 + 3 * 1, 0.05);
  ASSERT_EQ(plan.candidates.size(), 5u);
  EXPECT_NEAR(plan.candidates[0].secondsPerMinibatch, (8 + 3) * 3, 0.05);
  EXPECT_THAT(describePlan(plan), HasSubstr("1f1b 33 s"));
  Plan read = parsePlan(printPlan(plan), "plan.json");
  EXPECT_EQ(read.candidates.size(), 5u);
}

/// Of p ranks with v chunks and m microbatches the interleaved bubble is (p - 1)(F + B) / v;
/// without weight gradients to defer nothing with one stage per rank gets below (p - 1)(F + B).
TEST(Choice, SeveralStagesPerRankWhereThatIsFaster) {
  for (int chunks : {2, 3, 4}) {
    // A unit for each stage: there is one cut.
    PlanGraph graph = chainGraph(std::vector<double>(2 * chunks, 1));
    for (PlanUnit &unit : graph.units) {
      unit.backwardWeightSeconds = 0;
      unit.backwardInputSeconds = 2;
    }
    PlanRequest request = automatic(2, 8);
    Plan plan = makePlan(graph, request);
    std::string name = "interleaved in " + std::to_string(chunks) + " chunks";
    double work = 3 * chunks;
    EXPECT_NEAR(secondsOf(plan, "1f1b"), 8 * work + work, 0.2);
    EXPECT_NEAR(secondsOf(plan, name), 8 * work + work / chunks, 0.2);
    EXPECT_LE(plan.secondsPerMinibatch, 1.02 * (8 * work + work / chunks) + 0.2);
    EXPECT_GT(plan.stages.size(), 2u);
    EXPECT_THAT(describePlan(plan), HasSubstr(name));
    EXPECT_THAT(printReport(plan, graph), HasSubstr(name));
    // The same again.
    Plan again = makePlan(graph, request);
    EXPECT_EQ(again.scheduleName, plan.scheduleName);
    EXPECT_EQ(again.secondsPerMinibatch, plan.secondsPerMinibatch);
    request.chunks = chunks;
    plan = makePlan(graph, request);
    EXPECT_EQ(plan.stages.size(), 2u * chunks);
    EXPECT_FALSE(hasTried(plan, "1f1b"));
    request.chunks = 1;
    EXPECT_EQ(makePlan(graph, request).stages.size(), 2u);
  }
}

/// Where F = I = W the fold idles (p - 1)F / 2, zb-h1 (p - 1)F.
TEST(Choice, SeveralStagesPerRankForAFiftieth) {
  Plan plan = makePlan(chainGraph({1, 1, 1, 1}), automatic(2, 8));
  EXPECT_NEAR(secondsOf(plan, "zb-v"), 8 * 6 + 1, 0.1);
  EXPECT_NEAR(secondsOf(plan, "zb-h1"), 8 * 6 + 2, 0.1);
  EXPECT_EQ(plan.stages.size(), 4u);
}

TEST(Choice, SeveralStagesPerRankOnlyWhereTheyAreLeftOpen) {
  PlanGraph graph = chainGraph({1, 1, 1, 1, 1, 1});
  PlanRequest request = automatic(2, 7);
  // Seven microbatches are no multiple of two ranks.
  Plan plan = makePlan(graph, request);
  EXPECT_FALSE(hasTried(plan, "interleaved"));
  EXPECT_TRUE(hasTried(plan, "zb-v"));
  request.stages = 2;
  plan = makePlan(graph, request);
  EXPECT_EQ(plan.stages.size(), 2u);
  EXPECT_FALSE(hasTried(plan, "zb-v"));
  // A partition by hand has as many as it has.
  request = automatic(2, 8);
  for (int unit = 0; unit < 6; ++unit)
    request.assignment["n" + std::to_string(unit)] = unit;
  EXPECT_EQ(makePlan(graph, request).stages.size(), 6u);
  for (int unit = 0; unit < 6; ++unit)
    request.assignment["n" + std::to_string(unit)] = unit / 3;
  EXPECT_EQ(makePlan(graph, request).stages.size(), 2u);
  // By hand the refusal is said.
  request = automatic(2, 7);
  request.chunks = 3;
  EXPECT_THAT(refusal([&] { makePlan(graph, request); }),
              HasSubstr("needs a multiple of its 2 ranks as microbatches"));
}

TEST(Choice, SaysWhichStagesPerRankItLeftOut) {
  PlanGraph graph = chainGraph({1, 1, 1, 1});
  Plan plan = makePlan(graph, automatic(2, 8));
  EXPECT_EQ(plan.untried, "");
  plan.untried = "this: for a reason";
  EXPECT_THAT(printReport(plan, graph), HasSubstr("left out: this: for a reason"));
  plan = makePlan(graph, automatic(2, 1251));
  EXPECT_FALSE(hasTried(plan, "zb-v"));
  EXPECT_THAT(describePlan(plan), HasSubstr("several stages per device: for 4 units on 2 workers "
                                            "in 1251 microbatches that takes too long"));
}

/// Two replicas of two ranks have half the stages of four ranks: they are played in half the runs.
TEST(Choice, SeveralStagesPerRankOnReplicasWhereOneWouldTakeTooLong) {
  PlanRequest request = automatic(4, 1200);
  request.openReplicas = true;
  Plan plan = makePlan(chainGraph(std::vector<double>(8, 1)), request);
  EXPECT_FALSE(hasTried(plan, "interleaved in 2 chunks on 1"));
  EXPECT_TRUE(hasTried(plan, "interleaved in 2 chunks on 2-2"));
  EXPECT_FALSE(hasTried(plan, "interleaved in 3 chunks"));
  EXPECT_EQ(plan.untried, "several stages per device, more than 2 stages per device on 2 replicas: "
                          "for 8 units on 4 workers in 1200 microbatches that takes too long");
}

/// Four microbatches on each of two replicas: 4 * 6 of work and 6 / 2 of bubble, against 6 of
/// bubble with one stage per rank; one stage on four replicas sums twice as many gradients over
/// more ranks, and four stages wait 3 * 3.
TEST(Choice, SeveralStagesPerRankWithReplicas) {
  PlanGraph graph = chainGraph({1, 1, 1, 1});
  for (PlanUnit &unit : graph.units) {
    unit.backwardWeightSeconds = 0;
    unit.backwardInputSeconds = 2;
    unit.gradientBytes = 2000;
  }
  for (PlanValue &value : graph.values)
    value.bytes = 1;
  renewGradients(graph);
  PlanRequest request = automatic(4, 8, 1000);
  EXPECT_EQ(makePlan(graph, request).stages[0].replicas, 1);
  request.openReplicas = true;
  Plan plan = makePlan(graph, request);
  double seconds = secondsOf(plan, "interleaved in 2 chunks on 2-2");
  EXPECT_GE(seconds, 4 * 6 + 3 + 2);
  EXPECT_LE(seconds, 4 * 6 + 3 + 4 + 0.1);
  EXPECT_LE(plan.secondsPerMinibatch, seconds);
  ASSERT_EQ(plan.stages.size(), 4u);
  EXPECT_EQ(plan.stages[0].replicas, 2);
  EXPECT_EQ(plan.microbatches, 4);
  EXPECT_EQ(plan.minibatch, 8 * 4);
}

/// Of units that are not alike, for which no drawing was made.
TEST(Choice, SearchesRowsOfSeveralStagesPerRankAndOfReplicas) {
  std::vector<double> gains;
  int replicated = 0;
  for (int round = 0; round < 16; ++round) {
    std::mt19937 random = drawsOf(8, round);
    PlanGraph graph = chainGraph(std::vector<double>(8, 1));
    for (PlanUnit &unit : graph.units) {
      unit.forwardSeconds = 1 + static_cast<double>(random() % 5);
      unit.backwardInputSeconds = 1 + static_cast<double>(random() % 5);
      unit.backwardWeightSeconds = static_cast<double>(random() % 5);
    }
    PlanRequest request = automatic(2 + 2 * (round % 2), 8, 1e3);
    request.openReplicas = round % 2;
    request.chunks = 2;
    Plan plan = makePlan(graph, request);
    double seed = std::numeric_limits<double>::infinity();
    for (const PlanCandidate &tried : plan.candidates)
      if (tried.refusal.empty() && !tried.name.ends_with("searched"))
        seed = std::min(seed, tried.secondsPerMinibatch);
    EXPECT_LE(plan.secondsPerMinibatch, seed * (1 + 1e-9)) << round;
    EXPECT_GE(plan.secondsPerMinibatch, plan.boundSecondsPerMinibatch * (1 - 1e-9));
    gains.push_back(seed / plan.secondsPerMinibatch - 1);
    replicated += plan.stages[0].replicas > 1;
  }
  std::ranges::sort(gains);
  std::cout << "auto with two stages per rank is " << 100 * gains[gains.size() / 2]
            << " % faster than its best seed in the median, " << 100 * gains.back()
            << " % at most; " << replicated << " of " << gains.size() << " have replicas\n";
  EXPECT_GT(gains.back(), 0.02);
}

TEST(Choice, SeveralStagesFitTheMemoryTogether) {
  PlanGraph graph = chainGraph({1, 1, 1, 1, 1, 1, 1, 1});
  for (PlanUnit &unit : graph.units) {
    unit.stashBytes = 100'000;
    unit.backwardWeightSeconds = 0;
  }
  PlanRequest request = automatic(2, 4);
  request.recompute.kind = RecomputeChoice::none;
  int refused = 0, chosen = 0;
  for (int64_t bytes = 900'000; bytes <= 1'500'000; bytes += 100'000) {
    request.memoryBytes = bytes;
    Plan plan = makePlan(graph, request);
    for (int64_t held : memoryByRank(plan))
      EXPECT_LE(held, bytes);
    chosen += plan.stages.size() > 2;
    for (const PlanCandidate &tried : plan.candidates)
      refused += tried.name.starts_with("interleaved") &&
                 tried.refusal.find("too few") != std::string::npos;
  }
  EXPECT_GT(refused, 0);
  EXPECT_GT(chosen, 0);
}

/// The request of each way that auto may take, by its name.
std::vector<PlanRequest> waysByName(const PlanRequest &request) {
  std::vector<PlanRequest> ways;
  for (int replicas = 1; replicas <= request.workers; ++replicas) {
    if (request.workers % replicas || request.microbatches % replicas ||
        (replicas > 1 && !request.openReplicas))
      continue;
    int ranks = request.workers / replicas;
    PlanRequest way = request;
    way.stages = ranks;
    way.replicas.assign(ranks, replicas);
    way.microbatches /= replicas;
    for (const char *schedule : {"1f1b", "gpipe", "zb-h1", "zb-h2"})
      if (ranks > 1 || schedule == std::string("1f1b"))
        ways.push_back(named(way, schedule));
    way.stages = 0;
    for (way.chunks = 2; ranks > 1 && way.chunks <= 4; ++way.chunks)
      for (const char *schedule : {"interleaved", "zb-v"})
        if (std::string(schedule) == "zb-v" ? way.chunks == 2 : way.microbatches % ranks == 0)
          ways.push_back(named(way, schedule));
  }
  return ways;
}

/// The plan of each way by its name is no faster, and so is what the plan lists.
TEST(Choice, NoWayIsFaster) {
  int chunked = 0, replicated = 0;
  for (int round = 0; round < 60; round += kEveryCase) {
    std::mt19937 random = drawsOf(5, round);
    int workers = 1 + static_cast<int>(random() % 4);
    PlanGraph graph = randomGraph(workers + static_cast<int>(random() % 8), random);
    PlanRequest request = automatic(workers, 1 + round % 8, 30);
    request.openReplicas = round % 3 == 0;
    Plan plan = makePlan(graph, request);
    EXPECT_GE(plan.secondsPerMinibatch, plan.boundSecondsPerMinibatch * (1 - 1e-9));
    double alike = plan.secondsPerMinibatch * (1 - 1e-6);
    for (const PlanRequest &way : waysByName(request)) {
      if (plannedStages(way) > static_cast<int>(graph.units.size()))
        continue;
      EXPECT_LE(alike, makePlan(graph, way).secondsPerMinibatch)
          << way.schedule << " in " << way.chunks << " on " << way.replicas.size() << " of "
          << workers << ", round " << round;
    }
    for (const PlanCandidate &tried : plan.candidates)
      EXPECT_TRUE(!tried.refusal.empty() || alike <= tried.secondsPerMinibatch) << tried.name;
    chunked += static_cast<int>(plan.stages.size()) * plan.stages[0].replicas > workers;
    replicated += plan.stages[0].replicas > 1;
  }
  if (kEveryCase == 1) {
    EXPECT_GT(chunked, 0);
    EXPECT_GT(replicated, 0);
  }
}

TEST(Choice, OfTheSameSpeedTheSimplest) {
  EXPECT_EQ(makePlan(chainGraph({1, 1}), automatic(1, 4)).scheduleName, "1f1b");
  // Nothing is left for weight gradients where there are none.
  PlanGraph graph = chainGraph({1, 1, 1});
  for (PlanUnit &unit : graph.units)
    unit.backwardWeightSeconds = 0;
  EXPECT_EQ(makePlan(graph, automatic(3, 6, kFast)).scheduleName, "1f1b");
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
  EXPECT_THAT(refusal([&] { makePlan(graph, request); }), HasSubstr("a device has 1000"));
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
  // Seven microbatches cannot be shared among four, or two.
  request.microbatches = 7;
  plan = makePlan(chainGraph({1, 1, 1, 4}), request);
  EXPECT_EQ(plan.stages[0].replicas, 1);
  EXPECT_EQ(plan.minibatch, 7 * 4);
}

} // namespace
} // namespace pdc
