#include "compiler/schedule/RowSearch.h"
#include "testsuite/EveryCase.h"
#include "testsuite/runtime/DrawnPipeline.h"
#include "testsuite/runtime/ScheduledToy.h"

#include <algorithm>
#include <cstdlib>
#include <future>
#include <gtest/gtest.h>

namespace pdc {
namespace {

/// Sends that wait for their receives, and every group after a delay of its own: a schedule that
/// could hang does so in some of these runs, and what is not ordered shows as other weights.
void expectSameWeights(const Schedule &schedule, const std::vector<Edge> &edges,
                       const std::vector<int64_t> &rounds, int round) {
  const ::toy::ScheduledToy toy(schedule, edges);
  auto expected = toy.expected(rounds);
  // Runs mostly wait: those of one schedule go side by side.
  std::vector<std::future<::toy::ScheduledToy::Ended>> runs;
  for (uint64_t seed : {0, 1, 2, 3})
    runs.push_back(std::async(std::launch::async, [&, seed] { return toy.run(rounds, seed); }));
  for (size_t seed = 0; seed < runs.size(); ++seed) {
    ::toy::ScheduledToy::Ended ended = runs[seed].get();
    ASSERT_EQ(ended.weights, expected)
        << ended.error << "\nround " << round << ", delays " << seed << ", " << schedule.name
        << ", ranks " << testing::PrintToString(schedule.ranksOfStage);
  }
}

class Hangs : public testing::TestWithParam<ScheduleKind> {};

TEST_P(Hangs, NeverAndAlwaysTheSameWeights) {
  const ScheduleKind &kind = GetParam();
  for (int round = 0; round < 64; round += kEveryCase) {
    DrawnPipeline drawn(drawsOf(7, round));
    Pipeline pipeline = drawn.pipeline(kind);
    std::vector<Edge> edges = drawn.edges(pipeline.stages);
    Schedule schedule = completeSchedule(kind.make(pipeline), edges);
    expectSameWeights(schedule, edges, drawn.rounds(schedule), round);
    if (HasFatalFailure())
      return;
  }
}

/// What auto makes of the rows of a seed, whose stages are not alike: replicas, several stages per
/// rank and skips included.
TEST(HangsOfSearchedRows, NeverAndAlwaysTheSameWeights) {
  int searched = 0;
  for (int round = 0; round < 128; round += kEveryCase) {
    DrawnPipeline drawn(drawsOf(9, round));
    const ScheduleKind &kind = schedules()[static_cast<size_t>(round) % schedules().size()];
    if (!kind.synchronous)
      continue;
    Pipeline pipeline = drawn.pipeline(kind);
    std::vector<Edge> edges = drawn.edges(pipeline.stages);
    PlayCosts costs = equalStages(pipeline.stages, 1, 1, 1);
    for (StageSeconds &stage : costs.stages)
      stage.forward = stage.backwardInput = 1 + drawn.draw(5);
    Schedule rows = searchRows(kind.make(pipeline), {edges, costs, {}, 20'000});
    searched += rows.name != nameOfSeed(rows.name);
    Schedule schedule = completeSchedule(rows, edges);
    expectSameWeights(schedule, edges, drawn.rounds(schedule), round);
    if (HasFatalFailure())
      return;
  }
  EXPECT_GT(searched * kEveryCase, 40);
}

INSTANTIATE_TEST_SUITE_P(Schedules, Hangs, testing::ValuesIn(schedules()), [](const auto &info) {
  std::string name(info.param.name);
  std::ranges::replace(name, '-', '_');
  return name;
});

#ifdef PDC_HANG_MAIN

/// Every schedule as processes, on each number of ranks up to six.
TEST(HangsOverMpi, NeverAndAlwaysTheSameWeights) {
  for (int ranks = 1; ranks <= 6; ++ranks) {
    std::string line = "timeout 120 mpirun --allow-run-as-root --oversubscribe --bind-to none -n " +
                       std::to_string(ranks) + " " + PDC_HANG_MAIN;
    EXPECT_EQ(std::system(line.c_str()), 0) << ranks << " ranks";
  }
}

#else

TEST(HangsOverMpi, NeverAndAlwaysTheSameWeights) {
  GTEST_SKIP() << "the runtime was built without MPI";
}

#endif

} // namespace
} // namespace pdc
