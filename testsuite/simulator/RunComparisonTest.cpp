#include "compiler/simulator/RunComparison.h"
#include "compiler/plan/MakePlan.h"
#include "compiler/simulator/PlanSimulation.h"
#include "testsuite/Refusal.h"
#include "testsuite/plan/ExamplePlans.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pdc {
namespace {

/// A chain of stages of 2 s of work forward and 4 s back.
Plan planOf(const char *schedule, int stages, int64_t microbatches, Link link = {1e30, 0}) {
  PlanRequest request;
  request.workers = stages;
  request.schedule = schedule;
  request.microbatches = microbatches;
  request.topology = Topology{{{stages, link, 1}}, 0, ""};
  return makePlan(chainGraph(std::vector<double>(static_cast<size_t>(stages), 2)), request);
}

/// Minibatches as the plan is played, each task for `factor(rank)` of its seconds.
template <class Factor> TaskTimes timesOf(const Plan &plan, int64_t iterations, Factor factor) {
  const PlanSimulation simulation = simulate(plan, iterations);
  TaskTimes times(simulation.busySeconds.size());
  for (const Event &event : simulation.events)
    if (event.kind == StepKind::run)
      times[event.rank].push_back(
          {event.task, event.start, event.start + (event.end - event.start) * factor(event.rank)});
  return times;
}

TaskTimes timesOf(const Plan &plan, int64_t iterations) {
  return timesOf(plan, iterations, [](int) { return 1; });
}

/// In GPipe's rows a minibatch goes m times through the stage that takes longest, and once through
/// the others.
TEST(RunComparison, PlaysTasksForAsLongAsTheyTook) {
  const Plan plan = planOf("gpipe", 3, 8);
  for (int slow = 0; slow < 3; ++slow) {
    const RunComparison comparison =
        compareRun(plan, timesOf(plan, 5, [&](int rank) { return rank == slow ? 1.5 : 1.0; }));
    EXPECT_EQ(comparison.minibatches, 5);
    EXPECT_NEAR(comparison.planned.secondsPerMinibatch, (8 + 2) * 6, 1e-3);
    EXPECT_NEAR(comparison.played.secondsPerMinibatch, 8 * 9 + 2 * 6, 1e-3);
    EXPECT_NEAR(comparison.played.idle, 1 - 8 * (9 + 6 + 6) / (3.0 * (8 * 9 + 2 * 6)), 1e-4);
  }
}

TEST(RunComparison, WhatIsPlayedIsItsOwnMeasurement) {
  for (const char *schedule : {"gpipe", "1f1b", "zb-h1", "pipedream", "2bw"}) {
    SCOPED_TRACE(schedule);
    const Plan plan = planOf(schedule, 2, 4, {1e3, 0.01, 1e4, 1e4});
    const RunComparison comparison =
        compareRun(plan, timesOf(plan, plan.schedule.asynchronous ? 40 : 3));
    EXPECT_NEAR(comparison.played.idle, comparison.measured.idle, 1e-9);
    EXPECT_NEAR(comparison.played.secondsPerMinibatch, comparison.measured.secondsPerMinibatch,
                1e-9);
    EXPECT_NEAR(comparison.planned.idle, comparison.measured.idle, 1e-9);
    for (const PhaseSeconds &phase : comparison.phases)
      EXPECT_NEAR(phase.planned, phase.measured, 1e-9);
  }
}

/// Two replicas, the second of which takes half as long again: sums begin when it has made their
/// bucket. Of 4 buckets of 2 MiB, which its last backward pass makes in 1.5 s each, each takes 2 s
/// on the link and then 1 s in the hands of its ranks, whose tasks' seconds say already what that
/// costs them.
TEST(RunComparison, ReplicasWaitForTheirSums) {
  constexpr double mib = 1 << 20;
  PlanRequest request;
  request.workers = 2;
  request.stages = 1;
  request.replicas = {2};
  request.schedule = "1f1b";
  request.microbatches = 2; // each
  request.topology = Topology{{{2, {mib, 0, 4 * mib, 4 * mib}, 1}}, 0, ""};
  Plan plan = makePlan(chainGraph({2}), request);
  plan.stages[0].gradientBytes = 8 << 20;
  TaskTimes measured(2);
  for (int rank : {0, 1})
    for (int64_t minibatch : {0, 1, 2}) {
      double now = 0;
      auto run = [&](Phase phase, int64_t microbatch, double seconds) {
        measured[rank].push_back({{0, phase, 4 * minibatch + microbatch}, now, now + seconds});
        now += seconds;
      };
      for (int64_t microbatch : {rank, 2 + rank}) {
        run(Phase::forward, microbatch, rank == 1 ? 3 : 2);
        run(Phase::backward, microbatch, rank == 1 ? 6 : 4);
      }
      run(Phase::update, 3, 0);
    }
  const RunComparison comparison = compareRun(plan, measured);
  const double seconds = 3 + 6 + 3 + 1.5 + 4 * 2 + 1;
  EXPECT_NEAR(comparison.played.secondsPerMinibatch, seconds, 1e-3);
  EXPECT_NEAR(comparison.played.idle, 1 - (2 * 6 + 2 * 9) / (2 * seconds), 1e-4);
  // The plan's own passes make a bucket each second and spend another on each of three.
  const double planned = 2 + 4 + 2 + std::max(1 + 4 * 2 + 1, 4 + 3 * 1 + 2 + 1);
  EXPECT_NEAR(comparison.planned.secondsPerMinibatch, planned, 1e-3);
}

/// A message of 80 bytes takes a second on its link; it is handed over for two seconds and taken
/// for four, in which its ranks run no task: of 2 stages and one microbatch forward and back.
TEST(RunComparison, RanksRunNothingWhileTheyMoveMessages) {
  Plan plan = planOf("gpipe", 2, 1, {80, 0, 40, 20});
  for (Edge &edge : plan.edges)
    edge.bytes = 80;
  const RunComparison comparison = compareRun(plan, timesOf(plan, 1));
  const double seconds = 2 * (2 + 4 + 2 + 1 + 4);
  EXPECT_NEAR(comparison.planned.secondsPerMinibatch, seconds, 1e-3);
  EXPECT_NEAR(comparison.planned.idle, 1 - 2 * 6 / (2 * seconds), 1e-4);
  for (const PhaseSeconds &phase : comparison.phases)
    if (phase.phase == Phase::forward) {
      EXPECT_NEAR(phase.planned, 2, 1e-9);
    }
}

/// The epoch ended behind the third of four microbatches.
TEST(RunComparison, OfShorterMinibatches) {
  const Plan plan = planOf("1f1b", 2, 4);
  TaskTimes times = timesOf(plan, 3);
  for (std::vector<TaskTime> &rank : times)
    std::erase_if(rank, [](const TaskTime &time) {
      return time.task.microbatch == 7 && time.task.phase != Phase::update;
    });
  const RunComparison comparison = compareRun(plan, times);
  ASSERT_EQ(comparison.playedEach.size(), 3u);
  EXPECT_NEAR(comparison.playedEach[0].secondsPerMinibatch, (4 + 1) * 6, 1e-3);
  EXPECT_NEAR(comparison.playedEach[1].secondsPerMinibatch, (3 + 1) * 6, 1e-3);
}

TEST(RunComparison, RefusesAnotherOrder) {
  const Plan plan = planOf("1f1b", 2, 4);
  TaskTimes times = timesOf(plan, 2);
  std::swap(times[0][1].task, times[0][2].task);
  EXPECT_THAT(refusal([&] { compareRun(plan, times); }),
              testing::HasSubstr("rank 0 ran 0B0 where the plan has 0F1"));
  times = timesOf(plan, 2);
  times[1].push_back(times[1][0]);
  EXPECT_THAT(refusal([&] { compareRun(plan, times); }),
              testing::HasSubstr("rank 1 ran 1F0 where the plan has no task more"));
}

} // namespace
} // namespace pdc
