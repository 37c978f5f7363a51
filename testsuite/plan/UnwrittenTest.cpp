#include "compiler/plan/MakePlan.h"
#include "compiler/plan/Planner.h"
#include "testsuite/EveryCase.h"
#include "testsuite/plan/ExamplePlans.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <iostream>
#include <map>

namespace pdc {
namespace {

PlanRequest named(const char *schedule, int workers, int64_t microbatches) {
  PlanRequest request;
  request.schedule = schedule;
  request.workers = workers;
  request.microbatches = microbatches;
  request.topology = Topology{{{workers, {1e6, 0}}}, 0, "cpu"};
  request.microbatchSize = 4;
  return request;
}

/// Whether rows are written or not, a plan holds as much.
TEST(Unwritten, PlansHoldWhatThoseWithRowsDo) {
  const char *const names[] = {"1f1b", "zb-h2", "interleaved", "zb-v", "pipedream", "2bw"};
  for (int round = 0; round < 120; round += kEveryCase) {
    std::mt19937 random = drawsOf(17, round);
    PlanGraph graph = randomGraph(16, random);
    int workers = 2 + static_cast<int>(random() % 4);
    PlanRequest request = named(names[round % 6], workers, 3 * workers);
    Planned unwritten = Planner(graph, request, 0).make();
    ASSERT_TRUE(unwritten.plan.schedule.ranks.empty());
    Planner writer(graph, request);
    auto stages = static_cast<int>(unwritten.plan.stages.size());
    Planned written = writer.makeWith(unwritten.stageOfUnit, writer.computeRows(stages));
    unwritten = Planner(graph, request, 0).complete(unwritten);
    written = writer.complete(written);
    for (int stage = 0; stage < stages; ++stage) {
      const PlanStage &one = unwritten.plan.stages[stage], &other = written.plan.stages[stage];
      EXPECT_EQ(one.memoryBytes, other.memoryBytes) << names[round % 6] << " " << round;
      EXPECT_EQ(one.weightVersions, other.weightVersions) << names[round % 6] << " " << round;
      EXPECT_EQ(one.inFlight, other.inFlight) << names[round % 6] << " " << round;
    }
  }
}

/// Links from such that a sum or a message takes longer than a run to such that it takes no time,
/// in one level, or in two whose servers have a port or two.
Topology drawTopology(int workers, std::mt19937 &random) {
  const double exponent = 5 + 0.5 * static_cast<double>(random() % 9);
  const double bandwidth = std::pow(10, exponent), latency = random() % 2 ? 0.01 : 0;
  Topology topology{{{workers, {bandwidth, latency}}}, 0, "cpu"};
  const int each = 2 + static_cast<int>(random() % 2);
  if (random() % 2 || workers % each)
    return topology;
  topology.levels = {
      {each, {bandwidth, latency}},
      {workers / each, {bandwidth / 4, latency}, 1 + static_cast<int>(random() % 2)}};
  return topology;
}

/// Replicas where the schedule takes them, equal ones where it asks for that.
PlanRequest drawRequest(const char *schedule, std::mt19937 &random) {
  auto draw = [&](int least, int most) {
    return least + static_cast<int>(random() % (most - least + 1));
  };
  const std::string name = schedule;
  const bool isEqual = name == "interleaved" || name == "zb-v" || name == "2bw";
  std::vector<int> replicas(draw(2, 4), draw(1, 3));
  for (int &count : replicas)
    count = isEqual ? count : draw(1, 4);
  int workers = 0;
  for (int count : replicas)
    workers += count;
  PlanRequest request =
      named(schedule, workers, 4 * draw(100, 600) * static_cast<int>(replicas.size()));
  if (name == "pipedream")
    request.microbatches = 1;
  request.replicas = replicas;
  request.stages = isEqual && name != "2bw" ? 0 : static_cast<int>(replicas.size());
  request.topology = drawTopology(workers, random);
  return request;
}

/// Replicas share ports, sums over them share ports with messages, large messages wait for their
/// receivers: a plan whose rows are not written takes as long as the same one with its rows, which
/// are played event by event, from the first microbatch to the last: also where it has so many that
/// it is played in part.
TEST(Unwritten, PlansTakeAsLongAsThoseWithRows) {
  const char *const names[] = {"1f1b",        "gpipe", "zb-h1",     "zb-h2",
                               "interleaved", "zb-v",  "pipedream", "2bw"};
  std::map<std::string, std::vector<double>> ratios;
  for (int round = 0; round < 40; round += kEveryCase) {
    std::mt19937 random = drawsOf(23, round);
    const char *name = names[round % 8];
    PlanGraph graph = randomGraph(16, random);
    for (PlanUnit &unit : graph.units)
      unit.gradientBytes *= 100'000;
    for (PlanValue &value : graph.values)
      value.bytes *= 100'000;
    for (PlanValue &gradient : graph.gradients)
      gradient.bytes *= 100'000;
    PlanRequest request = drawRequest(name, random);
    Planned unwritten = Planner(graph, request, 0).make();
    ASSERT_TRUE(unwritten.plan.schedule.ranks.empty());
    Planner writer(graph, request, INT64_MAX);
    const auto stages = static_cast<int>(unwritten.plan.stages.size());
    Planned written = writer.makeWith(unwritten.stageOfUnit, writer.computeRows(stages));
    ASSERT_FALSE(written.plan.schedule.ranks.empty());
    ratios[name].push_back(unwritten.plan.secondsPerMinibatch / written.plan.secondsPerMinibatch);
    // GPipe's forward and backward passes have a rhythm each.
    EXPECT_NEAR(ratios[name].back(), 1, std::string(name) == "gpipe" ? 0.06 : 0.01)
        << name << " " << round;
  }
  for (auto &[name, all] : ratios) {
    std::ranges::sort(all);
    std::cout << name << ", unwritten against written: least " << all.front() << ", median "
              << all[all.size() / 2] << ", most " << all.back() << "\n";
  }
}

} // namespace
} // namespace pdc
