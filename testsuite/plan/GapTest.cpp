#include "compiler/plan/Cut.h"
#include "compiler/plan/MakePlan.h"
#include "compiler/plan/Planner.h"
#include "compiler/schedule/Schedules.h"
#include "compiler/simulator/PlanSimulation.h"
#include "testsuite/plan/ExamplePlans.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <iostream>
#include <random>

namespace pdc {
namespace {

/// Every cut that brings values to the same or a later stage and leaves no stage empty, or as many
/// as `most`.
class Cuts {
public:
  Cuts(const PlanGraph &graph, int stages, size_t most)
      : sources(graph.units.size()), stages(stages), most(most), cut(graph.units.size()) {
    for (const PlanValue &value : graph.values)
      for (int consumer : value.consumers)
        sources[consumer].push_back(value.producer);
    assign(0);
  }
  std::vector<std::vector<int>> all;

private:
  void assign(size_t unit) {
    if (all.size() >= most)
      return;
    if (unit == cut.size()) {
      for (int stage = 0; stage < stages; ++stage)
        if (std::ranges::find(cut, stage) == cut.end())
          return;
      all.push_back(cut);
      return;
    }
    int least = 0;
    for (int source : sources[unit])
      least = std::max(least, cut[source]);
    for (int stage = least; stage < stages; ++stage) {
      cut[unit] = stage;
      assign(unit + 1);
    }
  }

  std::vector<std::vector<int>> sources;
  int stages;
  size_t most;
  std::vector<int> cut;
};

/// Units that read one or two drawn earlier ones, with branches that run side by side.
PlanGraph drawUnits(int units, std::mt19937 &random) {
  auto draw = [&](int least, int most) {
    return least + static_cast<int>(random() % (most - least + 1));
  };
  PlanGraph graph;
  for (int i = 0; i < units; ++i) {
    PlanUnit unit;
    unit.name = "u" + std::to_string(i);
    unit.forwardSeconds = draw(1, 9);
    unit.backwardInputSeconds = draw(1, 9);
    unit.backwardWeightSeconds = draw(0, 9);
    graph.units.push_back(unit);
    graph.values.push_back({"v" + std::to_string(i), i, {}, draw(1, 50)});
  }
  for (int i = 1; i < units; ++i)
    for (int reads = draw(1, 2); reads > 0; --reads) {
      std::vector<int> &readers = graph.values[draw(std::max(0, i - 4), i - 1)].consumers;
      if (readers.empty() || readers.back() != i)
        readers.push_back(i);
    }
  std::erase_if(graph.values, [](const PlanValue &value) { return value.consumers.empty(); });
  renewGradients(graph);
  return graph;
}

double bestOf(const PlanGraph &graph, Plan plan, const std::vector<std::vector<int>> &cuts) {
  double best = INFINITY;
  for (const std::vector<int> &cut : cuts) {
    plan.edges = findEdges(graph, cut);
    plan.stages = makeStages(graph, cut, plan.edges);
    for (PlanStage &stage : plan.stages)
      stage.ranks = plan.schedule.ranksOfStage[stage.id];
    best = std::min(best, simulatedSecondsPerMinibatch(plan));
  }
  return best;
}

/// Of every cut of a chain under every synchronous schedule, with up to four stages per rank.
double bestOfWays(const PlanGraph &graph, PlanRequest request) {
  double best = INFINITY;
  for (const ScheduleKind &kind : schedules())
    for (int chunks = 1; kind.synchronous && chunks <= 4; ++chunks) {
      bool fits = kind.placement == StagePlacement::straight ? chunks == 1
                  : kind.placement == StagePlacement::fold   ? chunks == 2
                                                             : chunks > 1;
      if (!fits)
        continue;
      request.schedule = kind.name;
      request.chunks = chunks;
      std::vector<std::vector<int>> cuts = Cuts(graph, request.workers * chunks, 2000).all;
      best = std::min(best, bestOf(graph, Planner(graph, request).make().plan, cuts));
    }
  return best;
}

TEST(Gap, OfTheChoiceToEveryCutOfEveryWay) {
  std::mt19937 random(18);
  std::vector<double> gaps;
  int several = 0;
  for (int round = 0; round < 16; ++round) {
    PlanGraph graph;
    for (int i = 0; i < 8; ++i) {
      PlanUnit unit;
      unit.name = "u" + std::to_string(i);
      unit.forwardSeconds = unit.backwardInputSeconds = 1 + static_cast<double>(random() % 4);
      unit.backwardWeightSeconds = static_cast<double>(random() % 3);
      graph.units.push_back(unit);
      if (i)
        graph.values.push_back({"v" + std::to_string(i - 1), i - 1, {i}, 10});
    }
    renewGradients(graph);
    PlanRequest request;
    request.workers = 2;
    request.microbatches = 2 + 2 * static_cast<int64_t>(random() % 2);
    request.topology =
        Topology{{{2, {std::pow(10.0, static_cast<double>(random() % 4)), 0}}}, 0, ""};
    Plan plan = makePlan(graph, request);
    several += plan.stages.size() > 2;
    gaps.push_back(plan.secondsPerMinibatch / bestOfWays(graph, request) - 1);
    EXPECT_LE(gaps.back(), 0.04) << round;
  }
  std::ranges::sort(gaps);
  std::cout << "gap of auto to the best of all ways and cuts: median "
            << 100 * gaps[gaps.size() / 2] << " %, worst " << 100 * gaps.back() << " %; " << several
            << " of " << gaps.size() << " with several stages per rank\n";
  EXPECT_LT(gaps[gaps.size() / 2], 0.03);
  EXPECT_GT(several, 0);
}

TEST(Gap, ToEveryCutOfDrawnGraphs) {
  std::mt19937 random(17);
  constexpr size_t most = 2000, graphs = 60;
  const char *schedules[] = {"1f1b", "gpipe", "zb-h1", "pipedream"};
  std::vector<double> gaps;
  while (gaps.size() < graphs) {
    PlanRequest request;
    request.workers = 2 + static_cast<int>(random() % 3);
    PlanGraph graph =
        drawUnits(request.workers + static_cast<int>(random() % (13 - request.workers)), random);
    std::vector<std::vector<int>> cuts = Cuts(graph, request.workers, most + 1).all;
    if (cuts.empty() || cuts.size() > most)
      continue;
    request.schedule = schedules[gaps.size() % 4];
    request.microbatches = 1 + static_cast<int64_t>(random() % 8);
    double bandwidth = std::pow(10.0, 0.5 + static_cast<double>(random() % 20) / 10);
    request.topology = Topology{{{request.workers, {bandwidth, 0.1}}}, 0, ""};
    Plan plan = makePlan(graph, request);
    gaps.push_back(plan.secondsPerMinibatch / bestOf(graph, plan, cuts) - 1);
    EXPECT_GE(gaps.back(), -1e-9);
  }
  std::ranges::sort(gaps);
  double sum = 0;
  for (double gap : gaps)
    sum += gap;
  std::cout << "gap to the best of all cuts over " << graphs << " drawn graphs: median "
            << 100 * gaps[graphs / 2] << " %, mean " << 100 * sum / graphs << " %, 95th percentile "
            << 100 * gaps[graphs * 95 / 100] << " %, worst " << 100 * gaps.back() << " %, exact in "
            << std::ranges::count_if(gaps, [](double gap) { return gap < 1e-9; }) << "\n";
  EXPECT_LT(gaps[graphs / 2], 0.01);
}

} // namespace
} // namespace pdc
