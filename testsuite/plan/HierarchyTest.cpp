#include "compiler/plan/Hierarchy.h"
#include "compiler/Error.h"
#include "compiler/plan/DownSets.h"
#include "compiler/plan/Partition.h"
#include "testsuite/EveryCase.h"
#include "testsuite/Refusal.h"
#include "testsuite/plan/ExamplePlans.h"

#include <bit>
#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>

namespace pdc {
namespace {

using testing::HasSubstr;

/// Up to 12 units in branches and skips; the first is not always the only source.
PlanGraph drawBranchedGraph(int units, std::mt19937 &random) {
  auto draw = [&](int most) { return static_cast<int>(random() % (most + 1)); };
  PlanGraph graph;
  for (int i = 0; i < units; ++i) {
    PlanUnit unit;
    unit.name = "u" + std::to_string(i);
    unit.nodes = {"n" + std::to_string(i)};
    unit.forwardSeconds = draw(5) ? draw(9) : 0;
    unit.backwardInputSeconds = unit.forwardSeconds * 2;
    unit.parameterBytes = unit.gradientBytes = draw(1) ? draw(60) : 0;
    unit.optimizerBytes = unit.parameterBytes;
    unit.stashBytes = draw(30);
    unit.constantBytes = i % 3 == 1 ? 20 : 0;
    graph.units.push_back(unit);
    graph.values.push_back({"v" + std::to_string(i), i, {}, draw(40)});
    for (int reads = i ? draw(2) + (draw(6) > 0) : 0; reads > 0; --reads) {
      std::vector<int> &consumers = graph.values[i - 1 - draw(std::min(i - 1, 3))].consumers;
      if (consumers.empty() || consumers.back() != i)
        consumers.push_back(i);
    }
  }
  return graph;
}

/// Every plan there is, by the definitions, over bit masks of units.
class Exhaustive {
public:
  Exhaustive(const PlanGraph &graph, const HierarchyRequest &request)
      : graph(graph), request(request), units(static_cast<int>(graph.units.size())) {
    for (uint32_t set = 0; set < (1u << units); ++set)
      if (isCut(set))
        cuts.push_back(set);
  }

  double best() {
    return pipeline(static_cast<int>(request.topology.levels.size()) - 1, 0, all(), 0);
  }

private:
  uint32_t all() const { return (1u << units) - 1; }
  bool isCut(uint32_t set) const {
    for (const PlanValue &value : graph.values)
      for (int consumer : value.consumers)
        if (set >> consumer & 1 && !(set >> value.producer & 1))
          return false;
    return true;
  }
  double crossing(uint32_t set) const {
    double bytes = 0;
    for (const PlanValue &value : graph.values) {
      bool out = false;
      for (int consumer : value.consumers)
        out = out || !(set >> consumer & 1);
      bytes += out && set >> value.producer & 1 ? static_cast<double>(value.bytes) : 0;
    }
    return bytes;
  }
  template <class Field> double sum(uint32_t set, Field field) const {
    double result = 0;
    for (int unit = 0; unit < units; ++unit)
      if (set >> unit & 1)
        result += static_cast<double>(field(graph.units[unit]));
    return result;
  }

  /// The slowest stage between two cuts on all workers of a level; `behind`: minibatches in flight.
  double pipeline(int level, uint32_t from, uint32_t to, double behind) {
    auto [position, isNew] = pipelines.try_emplace({level, from, to, behind}, INFINITY);
    if (!isNew)
      return position->second;
    double best = stages(level, from, to, behind, request.topology.levels[level].workers, true);
    pipelines[{level, from, to, behind}] = best;
    return best;
  }

  /// Places a first stage in front of the rest, on each number of workers.
  double stages(int level, uint32_t from, uint32_t to, double behind, int workers, bool first) {
    double best = INFINITY;
    for (uint32_t cut : cuts) {
      if (cut == from || (cut & from) != from || (cut & ~to))
        continue;
      for (int replicas = 1; replicas <= (request.straight ? 1 : workers); ++replicas) {
        if ((cut == to) != (replicas == workers))
          continue;
        double cost = stage(level, from, cut, behind, replicas, workers - replicas, first);
        if (cost >= best)
          continue;
        double rest = cut == to ? 0 : stages(level, cut, to, behind, workers - replicas, false);
        best = std::min(best, std::max(cost, rest));
      }
    }
    return best;
  }

  double stage(int level, uint32_t from, uint32_t to, double behind, int replicas, int left,
               bool first) {
    const Level &here = request.topology.levels[level];
    double bandwidth = here.link.bytesPerSecond, m = replicas;
    bool code = request.costModel == "pipedream-code", ring = request.costModel == "ring-max";
    uint32_t inside = to & ~from;
    double below = 1;
    for (int i = 0; i < level; ++i)
      below *= request.topology.levels[i].workers;
    if (!fits(level, from, to, behind, replicas, left))
      return INFINITY;
    double work = sum(inside, [](const PlanUnit &unit) {
      return unit.forwardSeconds + unit.backwardInputSeconds;
    });
    if (level)
      work = pipeline(level - 1, from, to, code ? 0 : (behind + left * below) / m);
    double weights = sum(inside, [](const PlanUnit &unit) { return unit.gradientBytes; });
    double sync = code ? 4 * (m - 1) * weights / (bandwidth * m)
                       : 2 * (m - 1) * weights / bandwidth / (ring ? m : 1);
    if (code && first && level)
      sync /= request.topology.levels[level - 1].workers;
    double cost = code ? (work + sync) / m : std::max(work, sync) / m;
    if (!first)
      cost = std::max(cost, 2 * crossing(from) / bandwidth / (code ? m : 1));
    if (!first && code)
      cost = std::max(cost, 2 * crossing(to) / bandwidth / m);
    return cost;
  }

  bool fits(int level, uint32_t from, uint32_t to, double behind, int replicas, int left) const {
    uint32_t inside = to & ~from;
    if (!request.memoryBytes)
      return true;
    double most = static_cast<double>(request.memoryBytes);
    double weights = sum(inside, [](const PlanUnit &unit) { return unit.parameterBytes; });
    double kept = sum(inside, [](const PlanUnit &unit) { return unit.stashBytes; });
    if (request.costModel == "pipedream-code")
      return std::ceil(left / static_cast<double>(replicas)) * (weights + kept) <= most;
    if (level)
      return true;
    double fixed = sum(inside, [](const PlanUnit &unit) {
      return unit.constantBytes + unit.gradientBytes + unit.optimizerBytes;
    });
    double flight = 1 + std::ceil((behind + left) / replicas - 1e-9);
    return fixed + flight * (weights + kept + 2 * (crossing(from) + crossing(to))) <= most;
  }

  const PlanGraph &graph;
  const HierarchyRequest &request;
  int units;
  std::vector<uint32_t> cuts;
  std::map<std::tuple<int, uint32_t, uint32_t, double>, double> pipelines;
};

HierarchyRequest drawHierarchyRequest(std::mt19937 &random) {
  static const std::vector<std::vector<int>> shapes = {{1},    {2},    {3},      {4},
                                                       {2, 2}, {1, 3}, {2, 1, 2}};
  static const char *models[] = {"pipedream-code", "pipedream-paper", "ring-max"};
  HierarchyRequest request;
  request.costModel = models[random() % 3];
  double bandwidth = 64;
  for (int workers : shapes[random() % shapes.size()]) {
    request.topology.levels.push_back({workers, {bandwidth, 0}});
    bandwidth /= 1 + static_cast<double>(random() % 8);
  }
  request.straight = random() % 4 == 0;
  request.memoryBytes = random() % 2 ? 0 : 40 + static_cast<int64_t>(random() % 1200);
  return request;
}

TEST(Hierarchy, EqualsExhaustiveSearch) {
  int refused = 0, planned = 0, split = 0;
  for (int round = 0; round < 4000; round += kEveryCase) {
    std::mt19937 random = drawsOf(7, round);
    HierarchyRequest request = drawHierarchyRequest(random);
    PlanGraph graph = drawBranchedGraph(1 + static_cast<int>(random() % (round % 20 ? 8 : 12)), random);
    double best = Exhaustive(graph, request).best();
    if (best == INFINITY) {
      EXPECT_THROW(findHierarchy(graph, request), Error) << "round " << round;
      ++refused;
      continue;
    }
    Partition found = findHierarchy(graph, request);
    EXPECT_NEAR(found.slowestSeconds, best, 1e-9 * best) << "round " << round;
    EXPECT_TRUE(found.exact);
    split += found.groups.size() > 1;
    ++planned;
  }
  EXPECT_GT(refused, 300 / kEveryCase);
  EXPECT_GT(planned, 2000 / kEveryCase);
  EXPECT_GT(split, 800 / kEveryCase);
}

TEST(Hierarchy, SaysHowMuchMemoryIsMissing) {
  PlanGraph graph = chainGraph({1, 1});
  // On one worker: 2 x 100 gradients and 2 x 50 optimizer state, once 2 x 100 weights and 2 x 10
  // kept bytes.
  HierarchyRequest request{"ring-max", {{{1, {1e6, 0}}}, 0, ""}, false, 1, 500};
  EXPECT_EQ(
      refusal([&] { findHierarchy(graph, request); }),
      "no plan fits: a device has 500 bytes of memory, the plan that needs least takes 520 bytes, "
      "20 bytes more; use more workers or a smaller minibatch");
  request.memoryBytes = 520;
  EXPECT_EQ(findHierarchy(graph, request).slowestSeconds, 6);
}

TEST(Hierarchy, RefusesMoreStagesThanUnits) {
  HierarchyRequest request{"ring-max", {{{3, {1e6, 0}}}, 0, ""}, true, 1, 0};
  EXPECT_THAT(
      [&] {
        findHierarchy(chainGraph({1, 1}), request);
      },
      testing::ThrowsMessage<Error>(HasSubstr("has 2 units, which cannot fill 3 stages")));
}

TEST(Hierarchy, DataParallelismSumsUpThroughTheLevels) {
  PlanGraph graph = chainGraph({1, 1}); // 6 s, 200 bytes of gradients
  HierarchyRequest request{"pipedream-code", {{{2, {100, 0}}, {2, {10, 0}}}, 0, ""}, false, 1, 0};
  // (6 + 4 * 200 / 200) / 2 = 5; (5 + 4 * 200 / 20 / 2) / 2.
  EXPECT_DOUBLE_EQ(dataParallelSeconds(graph, request), 12.5);
  request.costModel = "pipedream-paper";
  EXPECT_DOUBLE_EQ(dataParallelSeconds(graph, request), 20);
  request.costModel = "ring-max";
  EXPECT_DOUBLE_EQ(dataParallelSeconds(graph, request), 10);
}

std::vector<std::vector<int>> listSets(const DownSets &sets) {
  std::vector<std::vector<int>> result;
  for (int set = 0; set < sets.count(); ++set)
    result.push_back(sets.between(0, set));
  return result;
}

TEST(DownSets, OfADiamondWithASecondSource) {
  // 0 -> 1, 0 -> 2, {1, 2, 3} -> 4: 3 is a source of its own.
  PlanGraph graph = chainGraph({1, 1, 1, 1, 1});
  graph.values = {{"a", 0, {1, 2}, 5}, {"b", 1, {4}, 7}, {"c", 2, {4}, 11}, {"d", 3, {4}, 13}};
  DownSets all = findDownSets(graph, [](int) { return true; });
  EXPECT_TRUE(all.all);
  // {0}, {0,1}, {0,2}, {0,1,2} or nothing, each with or without 3; and everything.
  EXPECT_EQ(all.count(), 11);
  DownSets few = findDownSets(graph, [](int count) { return count < 9; });
  EXPECT_FALSE(few.all);
  // Grown from 0 by readers: 3 comes with 4 only. The orders 0..4 and narrow add theirs.
  for (std::vector<int> set : {std::vector<int>{}, {0}, {0, 1}, {0, 2}, {0, 1, 2}, {0, 1, 2, 3, 4}})
    EXPECT_THAT(listSets(few), testing::Contains(set));
  for (int set = 0; set < few.count(); ++set)
    for (int other = 0; other < set; ++other)
      EXPECT_FALSE(few.nested(set, other));
  int set = 0;
  while (all.between(0, set) != std::vector<int>{0, 1})
    ++set;
  EXPECT_EQ(all.crossingBytes(set, graph), 12);
}

TEST(DownSets, LargeGraphsGetAThinnedFamily) {
  std::mt19937 random(5);
  PlanGraph graph = drawBranchedGraph(300, random);
  HierarchyRequest request{"ring-max", {{{8, {1e3, 0}}, {64, {1e2, 0}}}, 0, ""}, false, 1, 0};
  Partition found = findHierarchy(graph, request);
  EXPECT_FALSE(found.exact);
  EXPECT_LE(found.slowestSeconds, dataParallelSeconds(graph, request));
}

} // namespace
} // namespace pdc
