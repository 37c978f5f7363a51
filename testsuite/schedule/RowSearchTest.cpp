#include "compiler/schedule/RowSearch.h"

#include "compiler/schedule/Schedules.h"
#include "testsuite/EveryCase.h"
#include "testsuite/schedule/RandomEdges.h"

#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <numeric>

namespace pdc {
namespace {

PlayCosts drawCosts(int stages, size_t edges, std::mt19937 &random) {
  auto draw = [&](int most) { return static_cast<double>(random() % (most + 1)) / 4; };
  PlayCosts costs;
  for (int stage = 0; stage < stages; ++stage)
    costs.stages.push_back({1 + draw(8), 1 + draw(8), draw(12), draw(2), 1});
  for (size_t edge = 0; edge < edges; ++edge)
    costs.edges.push_back(draw(4));
  costs.allReduce = draw(2);
  return costs;
}

const char *const kSynchronous[] = {"gpipe", "1f1b", "zb-h1", "zb-h2"};

TEST(TaskGraph, TakesAsLongAsThePlayerSays) {
  for (int round = 0; round < 300; round += kEveryCase) {
    std::mt19937 random = drawsOf(2, round);
    int stages = 1 + static_cast<int>(random() % 6);
    Pipeline pipeline = straightPipeline(stages, 1 + static_cast<int>(random() % 9));
    std::vector<Edge> edges = randomEdges(stages, random);
    PlayCosts costs = drawCosts(stages, edges.size(), random);
    Schedule schedule = findSchedule(kSynchronous[round % 4]).make(pipeline);
    TaskGraph graph(schedule, edges, costs);
    Timeline timeline = play(schedule, edges, costs);
    EXPECT_NEAR(graph.seconds(graph.order()), timeline.seconds, 1e-9) << "round " << round;
    EXPECT_LE(graph.bound(), timeline.seconds + 1e-9);
    EXPECT_EQ(graph.withRows(schedule, graph.order()).ranks[0].warmUp, schedule.ranks[0].warmUp);
  }
}

TEST(TaskGraph, StandsStillWhereThePlayerDoes) {
  Schedule schedule = oneFOneB(straightPipeline(2, 2));
  std::swap(schedule.ranks[1].warmUp[0], schedule.ranks[1].warmUp[1]);
  std::vector<Edge> edges = chainEdges(2);
  TaskGraph graph(schedule, edges, unitCosts(schedule));
  EXPECT_TRUE(play(schedule, edges, unitCosts(schedule)).stall);
  EXPECT_EQ(graph.seconds(graph.order()), INFINITY);
}

double bestSeed(int stages, int64_t microbatches, std::span<const Edge> edges,
                const PlayCosts &costs) {
  double best = INFINITY;
  for (const char *name : kSynchronous)
    best = std::min(
        best, play(findSchedule(name).make(straightPipeline(stages, microbatches)), edges, costs)
                  .seconds);
  return best;
}

TEST(RowSearch, IsNeverSlowerThanAnySeedAndProven) {
  for (int round = 0; round < 40; round += kEveryCase) {
    std::mt19937 random = drawsOf(4, round);
    int stages = 2 + static_cast<int>(random() % 4);
    int64_t microbatches = 1 + static_cast<int64_t>(random() % 10);
    std::vector<Edge> edges = randomEdges(stages, random);
    PlayCosts costs = drawCosts(stages, edges.size(), random);
    for (const char *name : kSynchronous) {
      Schedule seed = findSchedule(name).make(straightPipeline(stages, microbatches));
      Schedule found = searchRows(seed, {edges, costs, {}, 300'000});
      double seconds = play(found, edges, costs).seconds;
      EXPECT_LE(seconds, play(seed, edges, costs).seconds * (1 + 1e-9));
      EXPECT_NO_THROW(completeSchedule(found, edges));
    }
  }
}

/// Ranks with several stages of unequal costs, for which the V's order was not made.
TEST(RowSearch, SearchesSeveralStagesPerRank) {
  std::mt19937 random(7);
  std::vector<double> gains;
  for (int round = 0; round < 20; round += kEveryCase) {
    const ScheduleKind &kind = findSchedule(round % 2 ? "zb-v" : "interleaved");
    int ranks = 2 + static_cast<int>(random() % 2), stages = 2 * ranks;
    std::vector<Edge> edges = chainEdges(stages);
    PlayCosts costs = drawCosts(stages, edges.size(), random);
    Schedule seed =
        completeSchedule(kind.make(placedPipeline(kind.placement, ranks, 2, 2 * ranks)), edges);
    Schedule rows = kind.make(placedPipeline(kind.placement, ranks, 2, 2 * ranks));
    Schedule found = searchRows(rows, {edges, costs, seed.slots, 300'000});
    double before = play(seed, edges, costs).seconds, after = play(found, edges, costs).seconds;
    EXPECT_LE(after, before * (1 + 1e-9));
    EXPECT_NO_THROW(completeSchedule(found, edges));
    gains.push_back(before / after - 1);
  }
  std::ranges::sort(gains);
  std::printf("searched rows of several stages per rank are %.1f%% faster in the median, %.1f%% at "
              "most\n",
              100 * gains[gains.size() / 2], 100 * gains.back());
}

TEST(RowSearch, KeepsTheMemoryLimit) {
  for (int round = 0; round < 30; round += kEveryCase) {
    std::mt19937 random = drawsOf(5, round);
    int stages = 2 + static_cast<int>(random() % 4);
    std::vector<Edge> edges = chainEdges(stages);
    PlayCosts costs = drawCosts(stages, edges.size(), random);
    std::vector<int> most;
    for (int stage = 0; stage < stages; ++stage)
      most.push_back(stages - stage + static_cast<int>(random() % 2));
    Schedule seed = oneFOneB(straightPipeline(stages, 8));
    Schedule found = searchRows(seed, {edges, costs, most, 300'000});
    std::vector<int> peaks = play(found, edges, costs).peakActivations;
    for (int stage = 0; stage < stages; ++stage)
      EXPECT_LE(peaks[stage], most[stage]);
  }
}

/// Every order of a stage's runs in which microbatches ascend and halves follow each other.
std::vector<std::vector<Step>> allRows(int stage, int64_t microbatches) {
  std::vector<std::vector<Step>> all;
  std::vector<Step> row;
  auto extend = [&](auto &&self, int64_t forward, int64_t input, int64_t weight) -> void {
    if (weight == microbatches)
      all.push_back(row);
    auto run = [&](Phase phase, int64_t microbatch, int64_t f, int64_t i, int64_t w) {
      row.push_back(runStep(stage, phase, microbatch));
      self(self, f, i, w);
      row.pop_back();
    };
    if (forward < microbatches)
      run(Phase::forward, forward, forward + 1, input, weight);
    if (input < forward)
      run(Phase::backwardInput, input, forward, input + 1, weight);
    if (weight < input)
      run(Phase::backwardWeight, weight, forward, input, weight + 1);
  };
  extend(extend, 0, 0, 0);
  return all;
}

double exhaustive(const Schedule &seed, std::span<const Edge> edges, const PlayCosts &costs) {
  TaskGraph graph(splitBackward(seed), edges, costs);
  std::vector<std::vector<std::vector<int>>> rows;
  for (size_t stage = 0; stage < seed.ranks.size(); ++stage) {
    rows.emplace_back();
    for (const std::vector<Step> &steps : allRows(static_cast<int>(stage), seed.microbatches)) {
      std::vector<int> &numbers = rows.back().emplace_back();
      for (const Step &step : steps)
        numbers.push_back(
            static_cast<int>(std::ranges::find(graph.nodes(), step.task, &TaskGraph::Node::task) -
                             graph.nodes().begin()));
    }
  }
  double best = INFINITY;
  RowOrder order(rows.size());
  auto choose = [&](auto &&self, size_t rank) -> void {
    if (rank == rows.size()) {
      best = std::min(best, graph.seconds(order));
      return;
    }
    for (const std::vector<int> &row : rows[rank]) {
      order[rank] = row;
      self(self, rank + 1);
    }
  };
  choose(choose, 0);
  return best;
}

TEST(RowSearch, GapToExhaustiveSearch) {
  std::vector<double> gaps, seedGaps;
  for (int round = 0; round < 60; round += kEveryCase) {
    std::mt19937 random = drawsOf(6, round);
    auto [stages, microbatches] = round % 2 ? std::pair(2, 4) : std::pair(3, 3);
    std::vector<Edge> edges = chainEdges(stages);
    PlayCosts costs = drawCosts(stages, edges.size(), random);
    Schedule seed = oneFOneB(straightPipeline(stages, microbatches));
    double best = exhaustive(seed, edges, costs);
    double found = play(searchRows(seed, {edges, costs, {}, 2'000'000}), edges, costs).seconds;
    EXPECT_GE(found, best * (1 - 1e-9));
    gaps.push_back(found / best - 1);
    seedGaps.push_back(bestSeed(stages, microbatches, edges, costs) / best - 1);
  }
  std::ranges::sort(gaps);
  std::ranges::sort(seedGaps);
  std::printf("gap to exhaustive search: median %.3f%%, worst %.3f%%; of the best known schedule: "
              "median %.3f%%, worst %.3f%%\n",
              100 * gaps[gaps.size() / 2], 100 * gaps.back(), 100 * seedGaps[gaps.size() / 2],
              100 * seedGaps.back());
  EXPECT_LE(gaps[gaps.size() / 2], 1e-9);
  EXPECT_LE(gaps.back(), 0.03);
}

} // namespace
} // namespace pdc
