#include "compiler/plan/Expectation.h"
#include "compiler/plan/MakePlan.h"
#include "testsuite/plan/ExamplePlans.h"

#include <gtest/gtest.h>

namespace pdc {
namespace {

constexpr double kFast = 1e15; ///< bytes per second, so that messages take no time

/// Sixteen equal units, which 1, 2, 4 and 8 stages share evenly.
const PlanGraph kEven = chainGraph(std::vector<double>(16, 0.5));

double planned(const PlanRequest &request) { return makePlan(kEven, request).secondsPerMinibatch; }
double expected(const PlanRequest &request) {
  return expectedSecondsOfUpdate(Work(kEven), request);
}

TEST(Expectation, OfAPipelineThatIsEven) {
  for (int workers : {1, 2, 4, 8})
    for (int64_t microbatches : {1, 3, 8, 20}) {
      const PlanRequest request = named(automatic(workers, microbatches, kFast), "1f1b");
      const double works = 24.0 / workers;
      EXPECT_DOUBLE_EQ(expected(request), works * static_cast<double>(microbatches + workers - 1));
      // Of few microbatches an uneven cut fills a little faster.
      EXPECT_LE(planned(request), expected(request) + 1e-3) << workers << ", " << microbatches;
      EXPECT_GE(planned(request), 0.9 * expected(request)) << workers << ", " << microbatches;
    }
}

TEST(Expectation, OfReplicasThatAreGiven) {
  for (const std::vector<int> &replicas : {std::vector<int>{2, 2}, {4, 4}, {4}}) {
    PlanRequest request = named(automatic(0, 4, kFast), "1f1b");
    request.replicas = replicas;
    request.workers = replicas[0] * static_cast<int>(replicas.size());
    request.topology->levels[0].workers = request.workers;
    request.stages = static_cast<int>(replicas.size());
    EXPECT_NEAR(planned(request), expected(request), 1e-3) << replicas.size();
  }
}

/// A pipeline fills for as long as it works where replicas would work at once, unless their sums
/// take longer; who names a schedule gets a pipeline all the same.
TEST(Expectation, OfTheBestReplicasWhereTheyAreOpen) {
  PlanRequest request = automatic(4, 4, kFast);
  request.openReplicas = true;
  EXPECT_NEAR(expected(request), 24, 1e-3);
  EXPECT_NEAR(planned(request), 24, 1e-3);
  request.schedule = "1f1b";
  EXPECT_NEAR(expected(request), 12 * 3, 1e-3);
  EXPECT_LE(planned(request), 12 * 3 + 1e-3); // uneven replicas may be faster
  request.schedule = "auto";
  // Gradients cross twice between every two shares.
  const double moved = 2 * 3 / 4.0 * 16 * 100;
  request.topology->levels[0].link.bytesPerSecond = moved / 4;
  // 16 of them backward, behind which the sums hide but for the last bucket, here the only one.
  EXPECT_NEAR(expected(request), 24 + 4, 1e-3);
  request.topology->levels[0].link.bytesPerSecond = 1;
  EXPECT_NEAR(expected(request), 6 * 4 + 2 * 3, 1e-3);
}

/// Every synchronous schedule, in chunks too: weight gradients are a sixth, a third or two fifths
/// of the work. Uneven cuts are up to a tenth faster.
TEST(Expectation, OfEverySchedule) {
  struct Case {
    const char *schedule;
    int chunks;
  };
  for (const Case &open : {Case{"1f1b", 0},
                           {"gpipe", 0},
                           {"zb-h1", 0},
                           {"zb-h2", 0},
                           {"interleaved", 0},
                           {"interleaved", 4},
                           {"zb-v", 0}})
    for (double weights : {0.5, 1.0, 1.2})
      for (int64_t microbatches : {4, 8, 16}) {
        PlanGraph graph = chainGraph(std::vector<double>(64, 1.0 / 16));
        for (PlanUnit &unit : graph.units) {
          unit.backwardInputSeconds = (2 - weights) / 16;
          unit.backwardWeightSeconds = weights / 16;
        }
        PlanRequest request = named(automatic(4, microbatches, kFast), open.schedule);
        request.chunks = open.chunks;
        const double works = expectedSecondsOfUpdate(Work(graph), request);
        const double plays = makePlan(graph, request).secondsPerMinibatch;
        EXPECT_NEAR(plays / works, 1, 0.11)
            << open.schedule << ", " << open.chunks << ", " << weights << ", " << microbatches;
      }
}

/// Two chains side by side: each stage waits half as long for the others.
TEST(Expectation, BranchesRunAtOnce) {
  PlanGraph graph = kEven;
  std::erase_if(graph.values, [](const PlanValue &value) { return value.producer == 7; });
  renewGradients(graph);
  const PlanRequest request = named(automatic(4, 2, kFast), "1f1b");
  EXPECT_DOUBLE_EQ(expectedSecondsOfUpdate(Work(graph), request), 6 * 2 + 6 * 3 / 2.0);
}

/// Of few microbatches there are few weight gradients to make meanwhile.
TEST(Expectation, FewWeightGradientsFillLittle) {
  for (int64_t microbatches : {1, 2, 4, 9}) {
    const PlanRequest request = named(automatic(4, microbatches, kFast), "zb-h1");
    const double others = 4 * 3 - 2 * static_cast<double>(std::min<int64_t>(3, microbatches - 1));
    EXPECT_DOUBLE_EQ(expected(request), 6 * static_cast<double>(microbatches) + others);
    EXPECT_NEAR(planned(request) / expected(request), 1, 0.1) << microbatches;
  }
}

TEST(Expectation, CoresThatAllShareDoNotWorkAtOnce) {
  PlanRequest request = named(automatic(4, 8, kFast), "1f1b");
  request.topology->cores = 2;
  EXPECT_NEAR(expected(request), 8 * 24 / 2.0, 1e-3);
}

TEST(Expectation, UpdatesThatDoNotWaitHaveNoBubble) {
  EXPECT_NEAR(expected(named(automatic(4, 8, kFast), "2bw")), 8 * 24 / 4.0, 1e-3);
}

WorkOfSizes::Known known(int64_t size, double seconds) {
  Work work(kEven);
  work.microbatch = seconds;
  return {size, work};
}

TEST(Expectation, WorkIsOnALineThroughTwoSizes) {
  for (const WorkOfSizes &works :
       {WorkOfSizes(known(4, 10), known(8, 16)), WorkOfSizes(known(8, 16), known(4, 10))}) {
    EXPECT_DOUBLE_EQ(works.of(4).microbatch, 10);
    EXPECT_DOUBLE_EQ(works.of(8).microbatch, 16);
    EXPECT_DOUBLE_EQ(works.of(32).microbatch, 52);
    EXPECT_DOUBLE_EQ(works.of(1).microbatch, 5.5);
    EXPECT_EQ(works.of(1).gradients, Work(kEven).gradients);
  }
}

/// Beyond both; kernels that are better at large microbatches do not make small ones free.
TEST(Expectation, NoSizeTakesLessThanNoTime) {
  const WorkOfSizes steep(known(4, 10), known(8, 40)), falling(known(4, 10), known(8, 9));
  EXPECT_DOUBLE_EQ(steep.of(1).microbatch, 2.5);
  EXPECT_DOUBLE_EQ(steep.of(8).microbatch, 40);
  EXPECT_DOUBLE_EQ(falling.of(8).microbatch, 9);
  EXPECT_DOUBLE_EQ(falling.of(32).microbatch, 9);
}

} // namespace
} // namespace pdc
