#include "compiler/plan/RankBalance.h"
#include "compiler/schedule/Schedules.h"
#include "testsuite/EveryCase.h"
#include "testsuite/plan/ExamplePlans.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <iostream>

namespace pdc {
namespace {

double heaviestRank(const std::vector<double> &work, const std::vector<int> &stages,
                    const ChainRequest &request) {
  std::vector<double> ranks(request.stages);
  for (size_t unit = 0; unit < work.size(); ++unit)
    ranks[request.ranksOfStage[stages[unit]][0]] += work[unit];
  return std::ranges::max(ranks);
}

/// Of every cut into stages that hold a unit each; `stages` are those of the first units.
double bestCut(const std::vector<double> &work, const ChainRequest &request,
               std::vector<int> &stages) {
  if (stages.size() == work.size())
    return stages.back() + 1 == request.stages ? heaviestRank(work, stages, request) : INFINITY;
  double best = INFINITY;
  int last = stages.empty() ? -1 : stages.back();
  for (int stage = std::max(last, 0); stage <= last + 1 && stage < request.stages; ++stage) {
    stages.push_back(stage);
    best = std::min(best, bestCut(work, request, stages));
    stages.pop_back();
  }
  return best;
}

ChainRequest drawRequest(std::mt19937 &random) {
  int ranks = 2 + static_cast<int>(random() % 2), chunks = 2 + static_cast<int>(random() % 2);
  auto placement = random() % 2 && chunks == 2 ? StagePlacement::fold : StagePlacement::loop;
  ChainRequest request;
  request.stages = ranks * chunks;
  request.ranksOfStage = placedPipeline(placement, ranks, chunks, 4).ranksOfStage;
  request.topology.levels = {{ranks, {}}};
  request.microbatches = [](int) { return 4; };
  request.memoryBytes = [](int) { return 0; };
  request.slots = request.versions = [](int) { return 1; };
  return request;
}

TEST(RankBalance, IsCloseToTheBestOfAllCuts) {
  std::vector<double> gaps, before;
  for (int round = 0; round < 150; round += kEveryCase) {
    std::mt19937 random = drawsOf(11, round);
    ChainRequest request = drawRequest(random);
    std::vector<double> work;
    for (int unit = request.stages + static_cast<int>(random() % 6); unit > 0; --unit)
      work.push_back(1 + static_cast<double>(random() % 9));
    PlanGraph graph = chainGraph(work);
    std::vector<int> chain = stageOfUnit(*findChain(graph, request), work.size()), drawn;
    std::vector<int> balanced = balanceRanks(graph, request, chain);
    EXPECT_TRUE(std::ranges::is_sorted(balanced));
    EXPECT_EQ(balanced.back(), request.stages - 1);
    double best = bestCut(work, request, drawn);
    gaps.push_back(heaviestRank(work, balanced, request) / best - 1);
    before.push_back(heaviestRank(work, chain, request) / best - 1);
    EXPECT_GE(gaps.back(), -1e-9);
    EXPECT_LE(gaps.back(), before.back() + 1e-9);
  }
  std::ranges::sort(gaps);
  std::ranges::sort(before);
  size_t middle = gaps.size() / 2;
  std::cout << "gap of the heaviest rank to the best of all cuts: median " << 100 * gaps[middle]
            << " %, worst " << 100 * gaps.back() << " %; of cuts for the slowest stage: median "
            << 100 * before[middle] << " %, worst " << 100 * before.back() << " %\n";
  EXPECT_LT(gaps[middle], 0.01);
}

TEST(RankBalance, KeepsToTheMemoryOfEachStage) {
  for (int round = 0; round < 100; round += kEveryCase) {
    std::mt19937 random = drawsOf(12, round);
    ChainRequest request = drawRequest(random);
    int units = request.stages + static_cast<int>(random() % 6);
    std::vector<double> work;
    for (int unit = 0; unit < units; ++unit)
      work.push_back(1 + static_cast<double>(random() % 9));
    PlanGraph graph = chainGraph(work);
    for (PlanUnit &unit : graph.units)
      unit.parameterBytes = 100'000;
    // So many units and not one more.
    int most = 1 + units / request.stages;
    request.memoryBytes = [most](int) { return most * 100'000 + 50'000; };
    std::vector<int> balanced =
        balanceRanks(graph, request, stageOfUnit(*findChain(graph, request), work.size()));
    for (int stage = 0; stage < request.stages; ++stage)
      EXPECT_LE(std::ranges::count(balanced, stage), most);
  }
}

} // namespace
} // namespace pdc
