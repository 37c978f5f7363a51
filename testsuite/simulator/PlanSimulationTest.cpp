#include "compiler/simulator/PlanSimulation.h"
#include "compiler/plan/MakePlan.h"
#include "compiler/schedule/Schedules.h"
#include "testsuite/plan/ExamplePlans.h"

#include <cmath>
#include <gtest/gtest.h>
#include <numeric>
#include <random>

namespace pdc {
namespace {

/// A chain of stages of 2 s of work forward and 4 s back, under a schedule, on links without end.
Plan equalStages(const char *schedule, int stages, int64_t microbatches) {
  PlanRequest request;
  request.workers = stages;
  request.schedule = schedule;
  request.microbatches = microbatches;
  request.topology = Topology{{{stages, {1e30, 0}, 1}}, 0, ""};
  return makePlan(chainGraph(std::vector<double>(static_cast<size_t>(stages), 2)), request);
}

double idle(const PlanSimulation &simulation) {
  double most = 0;
  for (double busy : simulation.busySeconds)
    most = std::max(most, simulation.seconds - busy);
  return most;
}

TEST(PlanSimulation, IdleTimeIsThatOfTheClosedForms) {
  for (int stages = 1; stages <= 8; ++stages)
    for (int64_t microbatches : {8, 9, 16, 32}) {
      for (const char *flush : {"gpipe", "1f1b"})
        EXPECT_NEAR(idle(simulate(equalStages(flush, stages, microbatches), 1)), (stages - 1) * 6,
                    1e-3)
            << flush << ' ' << stages << ' ' << microbatches;
      // W = I = F here.
      EXPECT_NEAR(idle(simulate(equalStages("zb-h1", stages, microbatches), 1)), (stages - 1) * 2,
                  1e-3);
    }
}

/// An asynchronous plan of stages with replicas, without rows.
Plan replicated(const std::vector<int> &replicas, const std::vector<double> &seconds) {
  Plan plan;
  plan.costModel = "ring-max";
  plan.schedule.asynchronous = true;
  int ranks = 0;
  for (size_t id = 0; id < replicas.size(); ++id) {
    PlanStage &stage = plan.stages.emplace_back();
    stage.id = static_cast<int>(id);
    stage.replicas = replicas[id];
    for (int replica = 0; replica < replicas[id]; ++replica)
      stage.ranks.push_back(ranks++);
    stage.forwardSeconds = seconds[id] / 3;
    stage.backwardSeconds = seconds[id] * 2 / 3;
    plan.schedule.ranksOfStage.push_back(stage.ranks);
  }
  // As few in flight as keep every replica busy when each waits for its group (design.md, 7):
  //   w_last = 0,  w_s = ceil(((w_{s+1} + 1) r_{s+1} + r_s + r_{s+1} - 2 gcd(r_s, r_{s+1})) / r_s)
  for (size_t s = replicas.size() - 1; s-- > 0;) {
    int own = replicas[s], next = replicas[s + 1];
    int wait = own + next - 2 * std::gcd(own, next);
    plan.stages[s].inFlight = (plan.stages[s + 1].inFlight * next + wait + own - 1) / own + 1;
  }
  plan.edges = chainEdges(static_cast<int>(replicas.size()));
  plan.topology = {{{ranks, {1e30, 0}, 1}}, 0, ""};
  return plan;
}

TEST(PlanSimulation, EqualReplicasTakeTurnsWithoutStalling) {
  std::mt19937 random(3);
  for (int round = 0; round < 40; ++round) {
    std::vector<int> replicas(1 + random() % 4);
    for (int &count : replicas)
      count = 1 + static_cast<int>(random() % 4);
    // Work in proportion to the replicas: every rank could be busy all the time.
    std::vector<double> seconds(replicas.begin(), replicas.end());
    EXPECT_NEAR(simulatedSecondsPerMinibatch(replicated(replicas, seconds)), 1, 0.02)
        << testing::PrintToString(replicas);
  }
}

TEST(PlanSimulation, TheSlowestStageSetsTheRhythm) {
  EXPECT_NEAR(simulatedSecondsPerMinibatch(replicated({3, 1}, {57, 18})), 19, 0.1);
  EXPECT_NEAR(simulatedSecondsPerMinibatch(replicated({3, 1}, {48, 18})), 18, 0.1);
}

TEST(PlanSimulation, ReplicasWaitForTheirGroup) {
  // Of 100 bytes each replica sends 2/2 round the ring: 10 s on a link of 10 bytes per second.
  Plan plan = replicated({2}, {6});
  plan.topology.levels[0].link = {10, 0};
  plan.stages[0].gradientBytes = 100;
  EXPECT_NEAR(simulatedSecondsPerMinibatch(plan), (6 + 10) / 2.0, 1e-6);
}

/// K buckets, each s on the link and h in the hands of its ranks while the next is on the link. The
/// backward pass makes them one after the other, and h of each but the last lengthens it:
///
///     s > part of the pass    F B/K |bucket 0 |bucket 1 |bucket 2 | h
///     s < part of the pass    F B/K |b. 0|  |b. 1|  |b. 2| h
TEST(PlanSimulation, SumsOverReplicasOverlapTheBackwardPass) {
  constexpr double mib = 1 << 20, forward = 2, backward = 4;
  for (int buckets : {1, 2, 5, 16})
    for (double link : {0.01, 0.2, 0.25, 0.3, 1.0, 40.0})
      for (double hand : {0.0, 0.1, 0.7}) {
        Plan plan = replicated({2}, {forward + backward});
        const double rate = hand > 0 ? 2 * 2 * mib / hand : 0;
        plan.topology.levels[0].link = {2 * mib / link, 0, rate, rate};
        plan.stages[0].gradientBytes = buckets * (int64_t(2) << 20);
        const double first =
            forward + backward / buckets + buckets * std::max(link, hand) + std::min(link, hand);
        const double last = forward + backward + hand * (buckets - 1) + link + hand;
        SCOPED_TRACE(testing::Message() << buckets << ' ' << link << ' ' << hand);
        EXPECT_NEAR(simulatedSecondsPerMinibatch(plan), std::max(first, last) / 2, 1e-6);
      }
}

/// Between GPUs a sum does not begin within a pass that ends in a message, which would wait for it.
TEST(PlanSimulation, SumsBetweenGpusWaitForMessages) {
  constexpr double mib = 1 << 20;
  for (const char *device : {"cpu", "cuda"}) {
    Plan plan = replicated({1, 2}, {1, 6});
    plan.device = device;
    plan.topology.levels[0].link = {64 * mib, 0};
    plan.stages[1].gradientBytes = int64_t(64) << 20; // a second, of 32 MiB there and back
    const double left = plan.device == "cuda" ? 1 : 2 / 32.0; // of 32 buckets
    EXPECT_NEAR(simulatedSecondsPerMinibatch(plan), (6 + left) / 2, 1e-6) << device;
  }
}

/// The same with buckets of 32 MiB, which no rank's hands move: behind the pass is the last of them.
TEST(PlanSimulation, SumsBetweenGpusGoInTheirOwnBuckets) {
  constexpr double mib = 1 << 20, forward = 2, backward = 4;
  for (int buckets : {1, 2, 5, 16})
    for (double link : {0.01, 0.25, 1.0, 40.0}) {
      Plan plan = replicated({2}, {forward + backward});
      plan.device = "cuda";
      plan.topology.levels[0].link = {32 * mib / link, 0};
      plan.stages[0].gradientBytes = buckets * (int64_t(32) << 20);
      const double made = forward + backward / buckets + buckets * link;
      SCOPED_TRACE(testing::Message() << buckets << ' ' << link);
      EXPECT_NEAR(simulatedSecondsPerMinibatch(plan), std::max(made, forward + backward + link) / 2,
                  1e-6);
    }
}

TEST(PlanSimulation, MemoryFollowsTheMicrobatches) {
  Plan plan = equalStages("1f1b", 3, 6);
  PlanSimulation simulation = simulate(plan, 1);
  auto memory = memoryOverTime(plan, simulation);
  ASSERT_EQ(memory.size(), 3u);
  for (const PlanStage &stage : plan.stages) {
    int64_t most = 0, fixed = stage.memoryBytes - plan.schedule.slots[stage.id] * stage.slotBytes;
    for (const MemoryPoint &point : memory[stage.id])
      most = std::max(most, point.bytes);
    EXPECT_EQ(memory[stage.id].front().bytes, fixed);
    EXPECT_EQ(memory[stage.id].back().bytes, fixed);
    EXPECT_EQ(most, fixed + (3 - stage.id) * stage.slotBytes);
    EXPECT_GT(stage.slotBytes, 0);
  }
}

/// What is said of a plan before it is played: never more than it takes, and on links that nobody
/// shares all of it.
TEST(PlanSimulation, IsPlayedOnlyBelowItsLimit) {
  std::mt19937 random(7);
  auto draw = [&](int least, int most) {
    return least + static_cast<int>(random() % (most - least));
  };
  for (int round = 0; round < 60; ++round) {
    PlanRequest request;
    request.workers = draw(2, 6);
    const char *names[] = {"1f1b", "gpipe", "zb-h1"};
    request.schedule = names[round % 3];
    request.microbatches = 2 * draw(1, 6);
    if (round % 4 == 3)
      request.replicas = {2}, request.stages = 1, request.workers = 2;
    double bandwidth = std::pow(10.0, draw(2, 8));
    request.topology =
        Topology{{{request.workers, {bandwidth, 0.01 * draw(0, 9)}, draw(1, 3)}}, 0, ""};
    std::vector<double> seconds(static_cast<size_t>(draw(6, 9)));
    for (double &one : seconds)
      one = draw(1, 9);
    Plan plan = makePlan(chainGraph(seconds), request);
    double played = simulatedSecondsPerMinibatch(plan);
    for (double share : {0.5, 0.9, 0.999, 1.001, 1.5}) {
      double limited = simulatedSecondsPerMinibatch(plan, share * played);
      if (share > 1)
        EXPECT_EQ(limited, played);
      else
        EXPECT_TRUE(limited >= share * played && limited <= played * (1 + 1e-12)) << round;
    }
  }
}

TEST(PlanSimulation, AThousandRanks) {
  Plan plan = replicated({700, 200, 100, 24}, {700, 200, 100, 24});
  EXPECT_NEAR(simulatedSecondsPerMinibatch(plan), 1, 0.05);
}

} // namespace
} // namespace pdc
