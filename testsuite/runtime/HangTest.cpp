#include "compiler/schedule/Rows.h"
#include "compiler/schedule/Schedules.h"
#include "testsuite/EveryCase.h"
#include "testsuite/runtime/ScheduledToy.h"
#include "testsuite/schedule/AnyPipeline.h"
#include "testsuite/schedule/RandomEdges.h"
#include "testsuite/schedule/ToyRule.h"

#include <algorithm>
#include <future>
#include <gtest/gtest.h>
#include <random>

namespace pdc {
namespace {

/// Draws pipelines of every schedule: stages, replicas, several stages per rank, skip edges.
class Drawn {
public:
  explicit Drawn(unsigned seed) : random(seed) {}

  Pipeline pipeline(const ScheduleKind &kind) {
    if (kind.placement != StagePlacement::straight)
      return anyPipeline(kind, 1 + draw(4), 1 + draw(6), 2 + draw(2), 1 + draw(3));
    bool replicated = draw(2);
    std::vector<int> replicas(replicated ? 1 + draw(3) : 1 + draw(6), 1);
    for (int &count : replicas)
      count += replicated ? draw(3) : 0;
    Pipeline drawn =
        replicatedPipeline(replicas, toy::fittingMicrobatches(kind.name, replicas, 1 + draw(8)));
    drawn.verticalSync = draw(2) && std::ranges::count(replicas, replicas[0]) == drawn.stages;
    return drawn;
  }
  std::vector<Edge> edges(int stages) {
    return draw(2) ? chainEdges(stages) : randomEdges(stages, random);
  }
  /// Two runs of which one ends in the middle of whatever it ends in.
  std::vector<int64_t> rounds(const Schedule &schedule) {
    if (!schedule.asynchronous)
      return {schedule.microbatches, 1 + draw(static_cast<int>(schedule.microbatches))};
    return {1 + draw(2 * schedule.stages() + 4), 1 + draw(2 * schedule.stages() + 12)};
  }
  int draw(int count) { return static_cast<int>(random() % static_cast<unsigned>(count)); }

private:
  std::mt19937 random;
};

class Hangs : public testing::TestWithParam<const char *> {};

/// Sends that wait for their receives, and every group after a delay of its own: a schedule that
/// could hang does so in some of these runs, and what is not ordered shows as other weights.
TEST_P(Hangs, NeverAndAlwaysTheSameWeights) {
  const ScheduleKind &kind = findSchedule(GetParam());
  Drawn drawn(7);
  for (int round = 0; round < 64; round += kEveryCase) {
    Pipeline pipeline = drawn.pipeline(kind);
    std::vector<Edge> edges = drawn.edges(pipeline.stages);
    Schedule schedule = completeSchedule(kind.make(pipeline), edges);
    std::vector<int64_t> rounds = drawn.rounds(schedule);
    const ::toy::ScheduledToy toy(schedule, edges);
    auto expected = toy.expected(rounds);
    // Runs mostly wait: those of one schedule go side by side.
    std::vector<std::future<::toy::ScheduledToy::Ended>> runs;
    for (uint64_t seed : {0, 1, 2, 3})
      runs.push_back(std::async(std::launch::async, [&, seed] { return toy.run(rounds, seed); }));
    for (size_t seed = 0; seed < runs.size(); ++seed) {
      ::toy::ScheduledToy::Ended ended = runs[seed].get();
      ASSERT_EQ(ended.weights, expected)
          << ended.error << "\nround " << round << ", delays " << seed << ", ranks "
          << testing::PrintToString(schedule.ranksOfStage);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Schedules, Hangs,
                         testing::Values("gpipe", "1f1b", "interleaved", "pipedream", "2bw",
                                         "zb-h1", "zb-h2", "zb-v"));

} // namespace
} // namespace pdc
