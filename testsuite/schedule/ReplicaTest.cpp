#include "compiler/Error.h"
#include "compiler/schedule/Grid.h"
#include "compiler/schedule/Play.h"
#include "compiler/schedule/Proof.h"
#include "compiler/schedule/Replicas.h"
#include "compiler/schedule/Schedules.h"
#include "testsuite/EveryCase.h"
#include "testsuite/Refusal.h"
#include "testsuite/schedule/AnyPipeline.h"
#include "testsuite/schedule/Completed.h"
#include "testsuite/schedule/RandomEdges.h"
#include "testsuite/schedule/ToyPipeline.h"
#include "testsuite/schedule/ToyRule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace pdc {
namespace {

using testing::HasSubstr;

Schedule complete(std::string_view name, const std::vector<int> &replicas, int64_t microbatches,
                  const std::vector<Edge> &edges) {
  return completeSchedule(findSchedule(name).make(replicatedPipeline(replicas, microbatches)),
                          edges);
}

Schedule complete(std::string_view name, const std::vector<int> &replicas, int64_t microbatches) {
  return complete(name, replicas, microbatches, chainEdges(static_cast<int>(replicas.size())));
}

/// Stages whose replicas together run a microbatch in three seconds each.
PlayCosts equalSpeeds(const std::vector<int> &replicas) {
  PlayCosts costs;
  for (double count : replicas)
    costs.stages.push_back({count, count, count, 0, count});
  return costs;
}

class Vectors {
public:
  explicit Vectors(int round) : random(drawsOf(11, round)) {}
  std::vector<int> draw(size_t mostStages, int mostReplicas) {
    std::vector<int> replicas(1 + random() % mostStages);
    for (int &count : replicas)
      count = 1 + static_cast<int>(random() % mostReplicas);
    return replicas;
  }
  std::mt19937 random;
};

TEST(Replicas, ForwardsAhead) {
  auto ahead = [](std::vector<int> replicas, bool waits) {
    return forwardsAhead(replicatedPipeline(replicas, 1).ranksOfStage, waits);
  };
  EXPECT_EQ(ahead({1, 1, 1, 1}, true), (std::vector<int64_t>{3, 2, 1, 0}));
  EXPECT_EQ(ahead({3, 1}, false), (std::vector<int64_t>{1, 0}));
  EXPECT_EQ(ahead({3, 1}, true), (std::vector<int64_t>{1, 0}));
  EXPECT_EQ(ahead({2, 3}, false), (std::vector<int64_t>{2, 0}));
  EXPECT_EQ(ahead({2, 3}, true), (std::vector<int64_t>{3, 0}));
  EXPECT_EQ(ahead({4}, true), (std::vector<int64_t>{0}));
}

TEST(Replicas, Drawn) {
  EXPECT_EQ(drawGrid(complete("1f1b", {2, 1}, 4), chainEdges(2)),
            "rank 0  0F0 0F2 .   0B0 .   .   .   0B2 .   .\n"
            "rank 1  0F1 0F3 .   .   .   0B1 .   .   .   0B3\n"
            "rank 2  .   1F0 1B0 1F1 1B1 1F2 1B2 1F3 1B3 .\n");
}

/// Several stages per rank: every replica of a rank runs its rows on microbatches of its own.
TEST(Replicas, OfSeveralStagesPerRank) {
  for (const ScheduleKind &kind : schedules())
    for (int places = 1; kind.placement != StagePlacement::straight && places <= 4; ++places)
      for (int replicas = 2; replicas <= 4; ++replicas)
        for (int64_t turns = 1; turns <= 3; ++turns) {
          SCOPED_TRACE(testing::Message()
                       << kind.name << ' ' << places << " x " << replicas << ", turns " << turns);
          int64_t microbatches = turns * places;
          Schedule one = kind.make(placedPipeline(kind.placement, places, 2, microbatches));
          Schedule all = kind.make(
              placedPipeline(kind.placement, places, 2, microbatches * replicas, replicas));
          std::vector<Edge> edges = chainEdges(2 * places);
          ASSERT_NO_THROW(all = completeSchedule(all, edges));
          one = completeSchedule(one, edges);
          EXPECT_EQ(all.slots, one.slots);
          double seconds = play(one, edges, unitCosts(one)).seconds;
          EXPECT_DOUBLE_EQ(play(all, edges, unitCosts(all)).seconds, seconds);
          EXPECT_TRUE(runsCorrectly(all, edges));
        }
}

/// Any numbers of replicas, on places that have several stages.
TEST(Replicas, OfUnevenPlacesOfSeveralStages) {
  for (int round = 0; round < 300; round += kEveryCase) {
    Vectors vectors(round);
    const ScheduleKind &kind = findSchedule(round % 2 ? "interleaved" : "zb-v");
    std::vector<int> replicas = vectors.draw(4, 3);
    auto turns = 1 + static_cast<int64_t>(vectors.random() % 7);
    Pipeline pipeline = anyPlacedPipeline(kind, replicas, turns, 2 + round / 2 % 2);
    SCOPED_TRACE(std::string(kind.name) + testing::PrintToString(replicas) + ", stages " +
                 std::to_string(pipeline.stages) +
                 ", m = " + std::to_string(pipeline.microbatches));
    std::vector<Edge> edges =
        round % 3 ? chainEdges(pipeline.stages) : randomEdges(pipeline.stages, vectors.random);
    Schedule schedule;
    ASSERT_NO_THROW(schedule = completeSchedule(kind.make(pipeline), edges));
    EXPECT_EQ(schedule.name, kind.name);
    EXPECT_TRUE(runsCorrectly(schedule, edges));
  }
}

TEST(Replicas, UnevenPlacesDrawn) {
  std::vector<Edge> edges = chainEdges(4);
  Schedule schedule = completeSchedule(
      interleaved(placedPipeline(StagePlacement::loop, std::vector{2, 1}, 2, 2)), edges);
  EXPECT_EQ(drawGrid(schedule, edges), "rank 0  0F0 .   2F0 .   .   2B0 .   .   0B0 .\n"
                                       "rank 1  0F1 .   .   2F1 .   .   .   2B1 .   0B1\n"
                                       "rank 2  .   1F0 1F1 3F0 3B0 3F1 3B1 1B0 1B1 .\n");
}

TEST(Replicas, PipeDreamNeverStalls) {
  for (int round = 0; round < 1500; round += kEveryCase) {
    Vectors vectors(round);
    std::vector<int> replicas = vectors.draw(round % 10 ? 5 : 8, 4);
    SCOPED_TRACE(testing::PrintToString(replicas));
    Schedule schedule = pipedream(replicatedPipeline(replicas, 1));
    std::vector<Edge> edges = chainEdges(static_cast<int>(replicas.size()));
    EXPECT_NEAR(secondsPerUpdate(schedule, edges, equalSpeeds(replicas), TransferModel::overlapped),
                3, 1e-9);
  }
}

TEST(Replicas, PipeDreamIsProven) {
  for (int round = 0; round < 1000; round += kEveryCase) {
    Vectors vectors(round);
    std::vector<int> replicas = vectors.draw(round % 20 ? 5 : 8, 4);
    SCOPED_TRACE(testing::PrintToString(replicas));
    Schedule schedule;
    ASSERT_NO_THROW(schedule = complete("pipedream", replicas, 1));
    std::vector<int64_t> ahead = forwardsAhead(schedule.ranksOfStage, true);
    for (size_t stage = 0; stage < replicas.size(); ++stage)
      EXPECT_EQ(schedule.versions[stage], ahead[stage] + 1);
    Timeline timeline = play(schedule, chainEdges(schedule.stages()), equalSpeeds(replicas),
                             TransferModel::overlapped, 12);
    for (size_t stage = 0; stage < replicas.size(); ++stage)
      EXPECT_EQ(timeline.peakActivations[stage], ahead[stage] + 1);
  }
}

TEST(Replicas, TwoVersionsAreProven) {
  for (int round = 0; round < 1000; round += kEveryCase) {
    Vectors vectors(round);
    std::vector<int> replicas = vectors.draw(5, 4);
    int64_t microbatches = toy::fittingMicrobatches("2bw", replicas, 1 + round % 20);
    SCOPED_TRACE(testing::PrintToString(replicas) + std::to_string(microbatches));
    Schedule schedule;
    ASSERT_NO_THROW(schedule = complete("2bw", replicas, microbatches));
    EXPECT_EQ(schedule.versions, std::vector<int>(replicas.size(), 2));
  }
  EXPECT_EQ(refusal(twoVersions(replicatedPipeline(std::vector<int>{2, 1}, 5))),
            "schedule 2bw: an update sums 5 microbatches, which the 2 replicas of stage 0 cannot "
            "share equally; choose a multiple");
}

TEST(Replicas, FlushSchedulesAreProven) {
  for (int round = 0; round < 2000; round += kEveryCase) {
    Vectors vectors(round);
    std::vector<int> replicas = vectors.draw(8, 4);
    int64_t microbatches = replicas[0] * (1 + static_cast<int64_t>(vectors.random() % 6));
    for (const char *name : {"gpipe", "1f1b", "zb-h1", "zb-h2"}) {
      SCOPED_TRACE(std::string(name) + testing::PrintToString(replicas) +
                   std::to_string(microbatches));
      ASSERT_NO_THROW(complete(name, replicas, microbatches));
    }
  }
}

/// One stage: data parallelism. Its ranks only meet at the sums.
TEST(Replicas, OneStage) {
  for (int replicas = 1; replicas <= 4; ++replicas)
    for (int64_t microbatches = 1; microbatches <= 9; ++microbatches) {
      Schedule schedule = complete("1f1b", {replicas}, microbatches);
      PlayCosts costs = equalSpeeds({1});
      costs.reductions = {0.5};
      int64_t turns = (microbatches + replicas - 1) / replicas;
      EXPECT_DOUBLE_EQ(play(schedule, {}, costs).seconds,
                       3 * static_cast<double>(turns) + (replicas > 1 ? 0.5 : 0));
      EXPECT_EQ(schedule.slots[0], 1);
      EXPECT_EQ(complete("pipedream", {replicas}, 1).versions[0], 1);
    }
}

TEST(Replicas, EdgesOfAnyKind) {
  int runs = 0;
  for (int round = 0; round < 300; round += kEveryCase) {
    Vectors vectors(round);
    std::vector<int> replicas = vectors.draw(4, 3);
    std::vector<Edge> edges = randomEdges(static_cast<int>(replicas.size()), vectors.random);
    const ScheduleKind &kind = schedules()[round % schedules().size()];
    if (kind.placement != StagePlacement::straight)
      continue;
    SCOPED_TRACE(std::string(kind.name) + testing::PrintToString(replicas));
    Schedule schedule;
    int64_t microbatches = toy::fittingMicrobatches(kind.name, replicas, 1 + round % 7);
    ASSERT_NO_THROW(schedule = complete(kind.name, replicas, microbatches, edges));
    EXPECT_TRUE(runsCorrectly(schedule, edges));
    ++runs;
  }
  EXPECT_GT(runs, 200 / kEveryCase);
}

TEST(Replicas, Evaluation) {
  for (int round = 0; round < 100; round += kEveryCase) {
    Vectors vectors(round);
    std::vector<int> replicas = vectors.draw(5, 4);
    std::vector<Edge> edges;
    for (int stage = 0; stage + 1 < static_cast<int>(replicas.size()); ++stage)
      edges.push_back({stage, "x", stage, stage + 1, Phase::evaluate, Phase::evaluate, 4});
    EXPECT_NO_THROW(completeEvaluation(replicatedPipeline(replicas, 1), edges));
  }
}

TEST(Replicas, MissingParticipant) {
  Schedule schedule = complete("gpipe", {2, 1}, 4);
  std::erase_if(schedule.ranks[1].warmUp,
                [](const Step &step) { return step.kind == StepKind::reduceGradients; });
  EXPECT_THAT(refusal(schedule), HasSubstr("stands still"));
  std::erase_if(schedule.ranks[0].warmUp,
                [](const Step &step) { return step.kind == StepKind::reduceGradients; });
  EXPECT_THAT(refusal(schedule), HasSubstr("the gradients of the replicas of stage 0 are not "
                                           "summed yet"));
}

TEST(Replicas, DoubledReduction) {
  Schedule schedule = complete("pipedream", {2, 1}, 1);
  for (int rank : {0, 1}) {
    std::vector<Step> &rows = schedule.ranks[rank].repeat;
    auto sum = std::ranges::find(rows, StepKind::reduceGradients, &Step::kind);
    rows.insert(sum, Step(*sum));
  }
  EXPECT_THAT(refusal(schedule), HasSubstr("summed twice"));
}

TEST(Replicas, WrongReplica) {
  Schedule schedule = complete("gpipe", {2, 1}, 2);
  schedule.ranks[0].warmUp[0].task.microbatch = 1;
  EXPECT_THAT(refusal(schedule), HasSubstr("stage 0 is placed on rank 1 for this microbatch"));
}

TEST(Replicas, PlacementsThatCannotBe) {
  Schedule schedule = gpipe(replicatedPipeline(std::vector{2, 2}, 2));
  schedule.ranksOfStage = {{0, 1}, {1, 2}};
  EXPECT_THROW(checkRows(schedule, chainEdges(2)), Error);
  schedule.ranksOfStage = {{0, 0}, {2, 3}};
  EXPECT_THROW(checkRows(schedule, chainEdges(2)), Error);
  EXPECT_THROW(gpipe({1, {{}}, 1}), Error);
}

/// Rows of one iteration would take gigabytes.
TEST(Replicas, WhoseTurnsHardlyRepeatAreRefused) {
  const Pipeline pipeline = replicatedPipeline(std::vector{97, 89, 83, 79}, 1);
  const std::string turns = ": the turns of 97-89-83-79 replicas repeat after a common multiple";
  const std::string rest =
      " that is too large to write rows for, expected less than 1048576; choose "
      "replicas that share factors, as in 4-2-1";
  EXPECT_EQ(refusal([&] { pipedream(pipeline); }), "schedule pipedream" + turns + rest);
  EXPECT_EQ(refusal([&] { evaluation(pipeline); }), "schedule evaluation" + turns + rest);
  const Pipeline summed = replicatedPipeline(std::vector{2, 1}, (1 << 20) - 2);
  EXPECT_EQ(routingPeriod(summed.ranksOfStage, summed.microbatches), (1 << 20) - 2);
}

} // namespace
} // namespace pdc
