#include "compiler/plan/Bounds.h"
#include "compiler/plan/Cut.h"
#include "testsuite/Refusal.h"
#include "testsuite/plan/ExamplePlans.h"
#include "testsuite/plan/ExampleRequest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pdc {
namespace {

using testing::HasSubstr;

/// The gradient "g", of 500 bytes, is what a cut sends back, beside one value.
void expectOneGradient(const PlanGraph &graph, const std::vector<int> &cut) {
  std::vector<Edge> edges = findEdges(graph, cut);
  ASSERT_EQ(edges.size(), 2u);
  EXPECT_EQ(edges[0].producer, Phase::forward);
  EXPECT_EQ(edges[1].tensor, "g");
  EXPECT_EQ(edges[1].bytes, 500);
  EXPECT_EQ(edges[1].fromStage, 1);
  EXPECT_EQ(edges[1].toStage, 0);
  EXPECT_EQ(edges[1].producer, Phase::backward);
}

TEST(Edges, SkipsGoStraightToTheirReaders) {
  PlanGraph graph = chainGraph({1, 1, 1});
  graph.values[0].consumers = {1, 2};
  renewGradients(graph);
  Plan plan = makePlan(graph, requestFor(3, "1f1b", 4));
  EXPECT_EQ(plan.scheduleName, "1f1b");
  ASSERT_EQ(plan.stages[0].sends.size(), 2u);
  EXPECT_EQ(plan.stages[0].sends[1].to, 2);
  EXPECT_EQ(plan.stages[2].sends.size(), 2u);
}

TEST(Edges, EveryReaderSendsItsOwnGradientTerm) {
  PlanGraph graph = chainGraph({1, 1, 1});
  graph.values[0].consumers = {1, 2};
  renewGradients(graph);
  std::vector<Edge> edges = findEdges(graph, {0, 1, 1});
  ASSERT_EQ(edges.size(), 3u);
  EXPECT_EQ(edges[0].tensor, "v0");
  EXPECT_EQ(edges[1].tensor, "v0/grad");
  EXPECT_EQ(edges[2].tensor, "v0/grad1");
}

/// A microbatch is back where the gradients end, which need not be where its values began.
TEST(Edges, GradientsMakeThePathBack) {
  PlanGraph graph = chainGraph({1, 1, 1}); // 1 forward and 1 for input gradients each
  EXPECT_EQ(Work(graph).path, 6);
  graph.gradients = {{"g", 2, {0}, 500}};
  EXPECT_EQ(Work(graph).path, 5);
  graph.gradients = {{"g", 1, {0}, 500}};
  EXPECT_EQ(Work(graph).path, 4); // unit 2's backward pass, or those of units 1 and 0
}

/// What a stage sends is its input gradients' work, whichever unit the value was read by.
TEST(Edges, GradientsPassUnitsBy) {
  PlanGraph graph = chainGraph({1, 1, 1});
  graph.gradients = {{"g", 2, {0}, 500}};
  std::vector<int> cut = {0, 1, 1};
  expectOneGradient(graph, cut);
  EXPECT_EQ(findSenders(graph, cut), (std::vector<bool>{false, false, true}));
  // Of unit 1, whose input gradient nobody gets, all of the backward pass can wait.
  EXPECT_EQ(sumStages(graph, cut)[1].backwardWeightSeconds, 3);
  graph.gradients[0].consumers = {2};
  EXPECT_THAT(refusal([&] { makePlan(graph, requestFor(2, "1f1b", 2)); }),
              HasSubstr("gradient 'g' goes from unit 2 to unit 2, expected an earlier one of 3"));
}

/// The sum of a weight's gradients is where the earliest of them is: the others go there, whichever
/// unit was planned with the sum.
TEST(Edges, GradientsGoToEarlierStages) {
  PlanGraph graph = chainGraph({1, 1, 1});
  graph.values = {{"v0", 0, {2}, 1000}, {"v1", 1, {2}, 1000}};
  graph.gradients = {{"g", 1, {0}, 500}};
  std::vector<int> cut = {1, 0, 1};
  expectOneGradient(graph, cut);
  EXPECT_EQ(findEdges(graph, cut)[0].tensor, "v1");
  EXPECT_EQ(findSenders(graph, cut), std::vector<bool>(3));
}

} // namespace
} // namespace pdc
