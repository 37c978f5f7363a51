#include "compiler/plan/Partition.h"
#include "compiler/Error.h"
#include "testsuite/EveryCase.h"
#include "testsuite/plan/ExamplePlans.h"

#include <algorithm>
#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pdc {
namespace {

using Ends = std::vector<int>; ///< the first unit behind each stage

/// Seconds and bytes of units [first, end) by the definition, value by value; `again` and `less`:
/// the seconds more and the bytes less where the forward pass runs again.
struct StageCost {
  double seconds = 0, again = 0;
  int64_t bytes = 0, less = 0;
};

/// What lives while a unit runs, from those that make values to their last readers.
int64_t temporariesAt(const PlanGraph &graph, int unit) {
  int64_t bytes = 0;
  for (const PlanValue &value : graph.values)
    if (value.producer <= unit && std::ranges::max(value.consumers) >= unit)
      bytes += value.bytes;
  for (const PlanValue &gradient : graph.gradients)
    if (gradient.producer >= unit && std::ranges::min(gradient.consumers) <= unit)
      bytes += gradient.bytes;
  return bytes;
}

/// Servers of two workers have one port: replicas on one of them share it.
Link linkBehind(const ChainRequest &request, int stage) {
  const std::vector<int> &from = request.ranksOfStage[stage], &to = request.ranksOfStage[stage + 1];
  Link link = request.topology.linkBetween(from.back(), to.front());
  auto onServer = [](const std::vector<int> &ranks, int server) {
    return std::ranges::count(ranks, server, [](int rank) { return rank / 2; });
  };
  int fromServer = from.back() / 2, toServer = to.front() / 2;
  if (request.topology.levels.size() > 1 && fromServer != toServer)
    link.bytesPerSecond /=
        static_cast<double>(std::max(onServer(from, fromServer), onServer(to, toServer)));
  return link;
}

void placeStraight(ChainRequest &request) {
  request.microbatches = [](int) { return 1; };
  for (int stage = 0; stage < request.stages; ++stage)
    request.ranksOfStage.push_back({stage});
}

StageCost costOf(const PlanGraph &graph, const ChainRequest &request, int stage, int first,
                 int end) {
  auto inside = [&](int unit) { return unit >= first && unit < end; };
  StageCost cost;
  int64_t weights = 0, fixed = 0, slot = 0, stash = 0, workspace = 0;
  int64_t inputStash = 0, halfway = 0, growth = 0;
  double update = 0, gradients = 0;
  for (int i = first; i < end; ++i) {
    const PlanUnit &unit = graph.units[i];
    cost.seconds += unit.forwardSeconds + unit.backwardInputSeconds + unit.backwardWeightSeconds;
    update += unit.updateSeconds;
    gradients += static_cast<double>(unit.gradientBytes);
    weights += unit.parameterBytes;
    fixed += unit.constantBytes + unit.gradientBytes + unit.optimizerBytes;
    slot += unit.inputBytes;
    stash += unit.stashBytes;
    inputStash += unit.inputStashBytes;
    halfway += unit.halfwayBytes;
    cost.again += unit.forwardSeconds;
    workspace = std::max(workspace, unit.workspaceBytes);
  }
  // Whoever has a tied weight has its state and the sums of each use, or of each stage; units count
  // some of that.
  for (const TiedWeight &tied : graph.tied) {
    int64_t uses = std::ranges::count_if(tied.units, inside);
    bool counted = inside(tied.units.front());
    weights += uses && !counted ? tied.parameterBytes : 0;
    fixed += uses && !counted ? tied.optimizerBytes : 0;
    int64_t elsewhere = static_cast<int64_t>(tied.units.size()) - uses;
    if (tied.sumsTogether)
      elsewhere = std::min<int64_t>(elsewhere, request.stages - 1);
    // Of those of all stages, one more while the weight is updated.
    fixed += tied.sumsTogether && uses && elsewhere ? tied.gradientBytes : 0;
    fixed += uses ? elsewhere * tied.gradientBytes : 0;
    if (tied.sumsTogether && uses && !counted) {
      fixed += tied.gradientBytes;
      gradients += static_cast<double>(tied.gradientBytes);
    }
  }
  for (const SharedRead &read : graph.sharedReads)
    if (std::ranges::any_of(read.units, inside) && !inside(read.units.front())) {
      weights += read.parameterBytes;
      fixed += read.constantBytes;
    }
  auto cross = [&](const PlanValue &value, int edge) {
    const Link link = linkBehind(request, edge);
    slot += value.bytes;
    cost.seconds += static_cast<double>(value.bytes) / link.bytesPerSecond + link.latencySeconds;
  };
  auto reads = [](const PlanValue &value, auto where) {
    return std::ranges::any_of(value.consumers, where);
  };
  auto isEarlier = [&](int unit) { return unit < first; };
  auto isLater = [&](int unit) { return unit >= end; };
  for (const PlanValue &value : graph.values)
    if (inside(value.producer) && reads(value, isLater)) {
      cross(value, stage);
      // It is kept where it is sent from, for as long as the microbatch.
      stash -= value.isStashed ? value.bytes : 0;
      inputStash -= value.freedAt >= 0 ? value.bytes : 0;
      growth += value.freedAt >= 0 && value.freedAt < end ? value.bytes : 0;
    } else if (isEarlier(value.producer) && reads(value, inside))
      cross(value, stage - 1);
  fixed += 2 * slot; // copies for evaluation, which has no gradients
  for (const PlanValue &gradient : graph.gradients)
    if (inside(gradient.producer) && reads(gradient, isEarlier))
      cross(gradient, stage - 1);
    else if (isLater(gradient.producer) && reads(gradient, inside))
      cross(gradient, stage);
  int64_t temporaries = 0, evaluation = 0;
  for (int i = first; i < end; ++i) {
    temporaries = std::max(temporaries, temporariesAt(graph, i));
    evaluation = std::max(evaluation, graph.units[i].evaluationTemporaryBytes);
  }
  // Input gradients that are sent run before all weight gradients, from the last unit to the first.
  const bool isApart = request.split && stage > 0;
  int64_t now = 0, highest = 0;
  for (int i = end; i-- > first;) {
    now += graph.units[i].halfwayBytes - graph.units[i].freedStashBytes;
    highest = std::max(highest, now);
  }
  const int64_t kept = stash + (isApart ? highest + growth : 0);
  const int64_t left = isApart ? stash - inputStash + halfway : 0;
  const int64_t again = isApart ? inputStash : stash;
  const int64_t most = std::max(temporaries, evaluation);
  cost.bytes = weights * request.versions(stage) + fixed + most + workspace +
               (slot + kept) * request.slots(stage);
  // Of one microbatch it is made again, in a task.
  cost.less =
      (kept - left) * request.slots(stage) + most - std::max(temporaries + again, evaluation);
  const std::vector<int> &ranks = request.ranksOfStage[stage];
  double replicas = static_cast<double>(ranks.size());
  if (ranks.size() > 1) {
    Link slowest = request.topology.linkBetween(ranks.front(), ranks.back());
    update += 2 * (replicas - 1) / replicas * gradients / slowest.bytesPerSecond +
              2 * slowest.latencySeconds;
  }
  cost.again /= replicas;
  cost.seconds =
      cost.seconds / replicas + update / static_cast<double>(request.microbatches(stage));
  return cost;
}

double bruteForce(const PlanGraph &graph, const ChainRequest &request, int stage, int first) {
  int units = static_cast<int>(graph.units.size());
  double best = INFINITY;
  int64_t limit = request.memoryBytes(stage);
  bool last = stage + 1 == request.stages;
  for (int end = last ? units : first + 1; end <= units; ++end) {
    if (end == first)
      continue;
    StageCost cost = costOf(graph, request, stage, first, end);
    double rest = last ? 0 : bruteForce(graph, request, stage + 1, end);
    for (bool recompute : {false, true}) {
      bool allowed = recompute ? request.recompute.may(stage) : !request.recompute.must(stage);
      int64_t bytes = cost.bytes - (recompute ? cost.less : 0);
      if (allowed && (!limit || bytes <= limit))
        best = std::min(best, std::max(cost.seconds + (recompute ? cost.again : 0), rest));
    }
  }
  return best;
}

ChainRequest drawChainRequest(std::mt19937 &random) {
  ChainRequest request;
  request.stages = 1 + static_cast<int>(random() % 4);
  request.microbatches = [drawn = 1 + static_cast<int64_t>(random() % 5)](int) { return drawn; };
  request.topology.levels = {{2, {10, 0.25}}, {4, {2, 1}}};
  bool replicated = random() % 2;
  for (int stage = 0, rank = 0; stage < request.stages; ++stage) {
    std::vector<int> &ranks = request.ranksOfStage.emplace_back();
    for (int count = replicated ? 1 + static_cast<int>(random() % 2) : 1; count > 0; --count)
      ranks.push_back(rank++);
  }
  int64_t least = random() % 2 ? 0 : 300 + static_cast<int64_t>(random() % 2000);
  request.memoryBytes = [least](int stage) { return least ? least + 100 * (stage % 2) : 0; };
  request.slots = [stages = request.stages](int stage) { return stages - stage; };
  request.versions = [](int stage) { return 1 + stage % 2; };
  request.recompute.kind = static_cast<RecomputeChoice::Kind>(random() % 4);
  request.recompute.stages = {static_cast<int>(random() % request.stages)};
  return request;
}

void tieDrawnUnits(PlanGraph &graph, std::mt19937 &random) {
  TiedWeight tied{{}, 70, 40, 30, random() % 2 == 0};
  for (int unit = 0; unit < static_cast<int>(graph.units.size()); ++unit)
    if (random() % 3 == 0)
      tied.units.push_back(unit);
  if (tied.units.size() > 1)
    graph.tied.push_back(tied);
}

/// Of two kinds; draws of its own, so that those of the graphs stay.
void shareReads(PlanGraph &graph, int round) {
  std::mt19937 random(round);
  for (const auto &[ofVersion, constant] : {std::pair{0, 60}, std::pair{25, 0}}) {
    SharedRead read{{}, ofVersion, constant};
    for (int unit = 0; unit < static_cast<int>(graph.units.size()); ++unit)
      if (random() % 2 == 0)
        read.units.push_back(unit);
    if (read.units.size() > 1)
      graph.sharedReads.push_back(read);
  }
}

TEST(Partition, EqualsBruteForce) {
  int refused = 0, cut = 0, tied = 0;
  for (int round = 0; round < 400; round += kEveryCase) {
    std::mt19937 random = drawsOf(3, round);
    ChainRequest request = drawChainRequest(random);
    PlanGraph graph = randomGraph(request.stages + static_cast<int>(random() % 7), random);
    graph.units[graph.units.size() / 2].constantBytes = 50;
    graph.units.back().evaluationTemporaryBytes = 150;
    tieDrawnUnits(graph, random);
    if (round % 2 == 0)
      shareReads(graph, round);
    addPassingGradients(graph, random);
    tied += !graph.tied.empty();
    request.split = round % 3 == 0;
    double best = bruteForce(graph, request, 0, 0);
    if (best == INFINITY) {
      EXPECT_FALSE(findChain(graph, request));
      ++refused;
      continue;
    }
    Partition found = findChain(graph, request).value();
    EXPECT_NEAR(found.slowestSeconds, best, 1e-9 * best) << "round " << round;
    std::vector<int> stages = stageOfUnit(found, graph.units.size());
    EXPECT_TRUE(std::ranges::is_sorted(stages));
    EXPECT_EQ(stages.back(), request.stages - 1);
    ++cut;
  }
  EXPECT_GT(refused, 20 / kEveryCase);
  EXPECT_GT(cut, 100 / kEveryCase);
  EXPECT_GT(tied, 100 / kEveryCase);
}

/// So many that few cuts are looked at first: the others must not be lost.
TEST(Partition, EqualsBruteForceOfManyUnits) {
  int cut = 0;
  for (int round = 0; round < 60; round += kEveryCase) {
    std::mt19937 random = drawsOf(9, round);
    ChainRequest request = drawChainRequest(random);
    if (request.stages > 2)
      continue;
    if (request.memoryBytes(0) > 0)
      request.memoryBytes = [least = 5'000 + static_cast<int64_t>(random() % 20'000)](int) {
        return least;
      };
    PlanGraph graph = randomGraph(70 + static_cast<int>(random() % 30), random);
    tieDrawnUnits(graph, random);
    addPassingGradients(graph, random);
    double best = bruteForce(graph, request, 0, 0);
    std::optional<Partition> found = findChain(graph, request);
    EXPECT_EQ(found.has_value(), best < INFINITY) << "round " << round;
    if (!found)
      continue;
    EXPECT_NEAR(found->slowestSeconds, best, 1e-9 * best) << "round " << round;
    cut += request.stages == 2;
  }
  EXPECT_GE(cut, 9 / kEveryCase);
}

/// Rounding must not lose the one cut there is: c / 7 * 7 may be less than c.
TEST(Partition, EqualsBruteForceOfManyEqualUnits) {
  for (int replicas : {7, 11, 13, 14, 15})
    for (int units = 33; units < 120; ++units) {
      ChainRequest request;
      request.topology.levels = {{replicas, {1e30, 0}}};
      request.ranksOfStage.resize(1);
      for (int rank = 0; rank < replicas; ++rank)
        request.ranksOfStage[0].push_back(rank);
      request.microbatches = [](int) { return 1; };
      request.memoryBytes = [](int) { return 0; };
      request.slots = request.versions = [](int) { return 1; };
      PlanGraph graph = chainGraph(std::vector<double>(units, 1));
      double best = bruteForce(graph, request, 0, 0);
      std::optional<Partition> found = findChain(graph, request);
      ASSERT_TRUE(found) << units << " units, " << replicas << " replicas";
      EXPECT_NEAR(found->slowestSeconds, best, 1e-9 * best);
    }
}

TEST(Partition, BalancesAChain) {
  ChainRequest request;
  request.stages = 3;
  request.topology.levels = {{3, {}}};
  placeStraight(request);
  request.slots = request.versions = [](int) { return 1; };
  request.memoryBytes = [](int) { return 0; };
  Partition found = findChain(chainGraph({1, 1, 1, 1, 1, 3}), request).value();
  EXPECT_EQ(found.slowestSeconds, 9);
  EXPECT_THAT(stageOfUnit(found, 6), testing::ElementsAre(0, 0, 0, 1, 1, 2));
}

TEST(Partition, LargeGraphIsQuick) {
  ChainRequest request;
  request.stages = 16;
  request.topology.levels = {{16, {1e9, 1e-6}}};
  placeStraight(request);
  request.slots = request.versions = [](int) { return 1; };
  request.memoryBytes = [](int) { return 0; };
  std::mt19937 random(5);
  PlanGraph graph = randomGraph(1500, random);
  EXPECT_EQ(stageOfUnit(findChain(graph, request).value(), 1500).back(), 15);
}

} // namespace
} // namespace pdc
