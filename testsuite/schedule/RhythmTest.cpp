#include "compiler/schedule/Rhythm.h"
#include "compiler/schedule/OrderPlayer.h"
#include "compiler/schedule/Slots.h"
#include "compiler/schedule/Transfers.h"
#include "testsuite/EveryCase.h"
#include "testsuite/schedule/AnyPipeline.h"

#include <gtest/gtest.h>
#include <random>

namespace pdc {
namespace {

const char *const kNames[] = {"1f1b", "gpipe", "zb-h1", "zb-h2"};

double seconds(const char *name, const Pipeline &pipeline, const PlayCosts &costs) {
  return playUnwritten(*makeUnwritten(name, pipeline), chainEdges(pipeline.stages), costs);
}

TEST(Rhythm, TakesTheSecondsOfTheFormulas) {
  for (int p = 1; p <= 8; ++p)
    for (int64_t m = 2 * p - 1; m <= 32; ++m) {
      Pipeline pipeline = straightPipeline(p, m);
      PlayCosts costs = equalStages(p, 2, 3, 2);
      auto work = static_cast<double>(7 * m), others = static_cast<double>(p - 1);
      EXPECT_DOUBLE_EQ(seconds("1f1b", pipeline, costs), work + others * 7);
      EXPECT_DOUBLE_EQ(seconds("gpipe", pipeline, costs), work + others * 7);
      EXPECT_DOUBLE_EQ(seconds("zb-h1", pipeline, costs), work + others * 3);
      EXPECT_DOUBLE_EQ(seconds("zb-h2", pipeline, costs), work + others * 2);
    }
}

/// A thousand stages: what rows could not say in seconds of computing.
TEST(Rhythm, OfManyStages) {
  PlayCosts costs = equalStages(1000, 1, 1, 1);
  EXPECT_DOUBLE_EQ(seconds("1f1b", straightPipeline(1000, 2000), costs), (2000 + 999) * 3.0);
}

/// Chains, and values that skip stages, both ways.
std::vector<Edge> drawEdges(int stages, std::mt19937 &random) {
  std::vector<Edge> edges = chainEdges(stages);
  for (int from = 0; from + 2 < stages; ++from)
    if (random() % 2) {
      int to = from + 2 + static_cast<int>(random() % (stages - from - 2));
      auto id = static_cast<int>(edges.size());
      edges.push_back({id, "skip", from, to, Phase::forward, Phase::forward, 0});
      edges.push_back({id + 1, "skip/grad", to, from, Phase::backward, Phase::backward, 0});
    }
  return edges;
}

PlayCosts drawCosts(const Pipeline &pipeline, size_t edges, std::mt19937 &random) {
  auto draw = [&] { return static_cast<double>(1 + random() % 16) / 4; };
  PlayCosts costs;
  for (int stage = 0; stage < pipeline.stages; ++stage) {
    costs.stages.push_back({draw(), draw(), draw(), draw(), 0});
    costs.reductions.push_back(pipeline.ranksOfStage[stage].size() > 1 ? draw() : 0);
  }
  for (size_t edge = 0; edge < edges; ++edge)
    costs.edges.push_back(draw());
  return costs;
}

/// Versions and slots, with the transfers of these edges.
void expectDepthsOfWrittenRows(Schedule unwritten, const Schedule &written,
                               std::span<const Edge> edges, int round) {
  EXPECT_TRUE(unwritten.ranks.empty());
  EXPECT_EQ(unwritten.versions, written.versions) << written.name << " " << round;
  assignUnwrittenSlots(unwritten, edges);
  EXPECT_EQ(unwritten.slots, written.slots) << written.name << " " << round;
}

TEST(Rhythm, IsWhatTheWrittenRowsTake) {
  for (int round = 0; round < 300; round += kEveryCase) {
    std::mt19937 random = drawsOf(3, round);
    const char *name = kNames[round % 4];
    std::vector<int> replicas(1 + random() % 4);
    for (int &count : replicas)
      count = 1 + static_cast<int>(random() % 3);
    Pipeline pipeline = replicatedPipeline(replicas, 12 * (1 + static_cast<int64_t>(random() % 3)));
    std::vector<Edge> edges = drawEdges(pipeline.stages, random);
    PlayCosts costs = drawCosts(pipeline, edges.size(), random);
    Schedule unwritten = *makeUnwritten(name, pipeline);
    Schedule written = completeSchedule(findSchedule(name).make(pipeline), edges);
    EXPECT_NEAR(playUnwritten(unwritten, edges, costs), play(written, edges, costs).seconds, 1e-9)
        << name << " " << round;
    expectDepthsOfWrittenRows(unwritten, written, edges, round);
  }
}

/// Several stages per rank, as the schedule places them, or one with replicas of its own.
Pipeline drawPipeline(const ScheduleKind &kind, std::mt19937 &random) {
  int places = 1 + static_cast<int>(random() % 8), chunks = 2 + static_cast<int>(random() % 3);
  auto microbatches = static_cast<int64_t>(1 + random() % 14);
  if (kind.placement != StagePlacement::straight)
    return anyPipeline(kind, places, microbatches, chunks, 1 + static_cast<int>(random() % 3));
  if (random() % 2)
    return straightPipeline(places, kind.synchronous ? microbatches : microbatches + places);
  std::vector<int> replicas(1 + random() % 8);
  for (int &count : replicas)
    count = 1 + static_cast<int>(random() % 5);
  // Of a synchronous schedule some replicas may have a turn more than others.
  const auto turns = static_cast<int64_t>(1 + random() % 40);
  Pipeline pipeline = replicatedPipeline(replicas, kind.synchronous ? turns : 60 * (1 + turns % 3));
  pipeline.verticalSync = kind.name == "pipedream" && hasEqualReplicas(pipeline);
  return pipeline;
}

/// Transfers stand at their runs or, where that would stand still, where they fall due: then a
/// stage may hold twice as many microbatches as it has begun.
TEST(Rhythm, HasTheSlotsOfTheWrittenRows) {
  for (int round = 0; round < 1600; round += kEveryCase) {
    std::mt19937 random = drawsOf(11, round);
    const ScheduleKind &kind = schedules()[round % schedules().size()];
    Pipeline pipeline = drawPipeline(kind, random);
    std::vector<Edge> edges =
        random() % 2 ? chainEdges(pipeline.stages) : drawEdges(pipeline.stages, random);
    std::optional<Schedule> unwritten = makeUnwritten(kind.name, pipeline);
    if (!unwritten) // sums fewer microbatches than are in flight
      continue;
    Schedule written = kind.make(pipeline);
    placeTransfers(written, edges);
    assignSlots(written, edges);
    assignVersions(written);
    expectDepthsOfWrittenRows(*unwritten, written, edges, round);
  }
}

/// Of chains: rows that skip stages hold some tensors longer.
void expectWhatWrittenRowsTake(const char *name, const Pipeline &pipeline, std::mt19937 &random) {
  std::vector<Edge> edges = chainEdges(pipeline.stages);
  PlayCosts costs = drawCosts(pipeline, edges.size(), random);
  Schedule unwritten = *makeUnwritten(name, pipeline);
  Schedule written = completeSchedule(findSchedule(name).make(pipeline), edges);
  EXPECT_EQ(unwritten.microbatches, written.microbatches);
  // A rhythm may take several microbatches, which neither counts in whole.
  double expected = secondsPerUpdate(written, edges, costs, TransferModel::overlapped) *
                    static_cast<double>(written.microbatches);
  EXPECT_NEAR(playUnwritten(unwritten, edges, costs), expected, 0.02 * expected) << name;
  expectDepthsOfWrittenRows(unwritten, written, edges, pipeline.stages);
}

TEST(Rhythm, OfAsynchronousSchedulesIsWhatTheWrittenRowsTake) {
  for (int round = 0; round < 60; round += kEveryCase) {
    std::mt19937 random = drawsOf(5, round);
    int stages = 1 + static_cast<int>(random() % 8);
    auto more = static_cast<int64_t>(random() % 6);
    expectWhatWrittenRowsTake("pipedream", straightPipeline(stages, 1), random);
    expectWhatWrittenRowsTake("2bw", straightPipeline(stages, stages + more), random);
  }
}

/// Replicas wait for each other in front of every update.
TEST(Rhythm, OfAsynchronousReplicasIsWhatTheWrittenRowsTake) {
  for (int round = 0; round < 60; round += kEveryCase) {
    std::mt19937 random = drawsOf(13, round);
    std::vector<int> replicas(1 + random() % 5);
    for (int &count : replicas)
      count = 1 + static_cast<int>(random() % 4);
    expectWhatWrittenRowsTake("pipedream", replicatedPipeline(replicas, 1), random);
    expectWhatWrittenRowsTake("2bw", replicatedPipeline(replicas, 48), random);
  }
}

/// What two plays begin with is played once; no bit depends on it.
TEST(Rhythm, PlaysFirstMicrobatchesAndAllTogether) {
  for (int round = 0; round < 200; round += kEveryCase) {
    std::mt19937 random = drawsOf(19, round);
    std::vector<int> replicas(1 + random() % 5);
    for (int &count : replicas)
      count = 1 + static_cast<int>(random() % 4);
    const bool sums = random() % 2;
    Pipeline pipeline = replicatedPipeline(replicas, sums ? 48 : 1);
    std::vector<Edge> edges = drawEdges(pipeline.stages, random);
    PlayCosts costs = drawCosts(pipeline, edges.size(), random);
    for (StageSeconds &stage : costs.stages)
      stage.forward += 0.1; // whose sums are rounded
    Schedule schedule = *makeUnwritten(sums ? "2bw" : "pipedream", pipeline);
    const auto first = static_cast<int64_t>(100 + random() % 100);
    auto play = [&](int64_t microbatches) {
      return OrderPlayer(schedule, edges, costs, microbatches).play();
    };
    auto [few, many] = OrderPlayer(schedule, edges, costs, 2 * first).playFirstAndAll(first);
    EXPECT_EQ(few, play(first)) << round;
    EXPECT_EQ(many, play(2 * first)) << round;
  }
}

/// A thousand stages of a second each way wait for nothing: a second for each pass and the update.
TEST(Rhythm, OfManyAsynchronousStages) {
  PlayCosts costs = equalStages(1000, 1, 1, 0);
  EXPECT_NEAR(seconds("pipedream", straightPipeline(1000, 1), costs), 2, 1e-9);
  EXPECT_NEAR(seconds("2bw", straightPipeline(1000, 1000), costs), 2000, 1e-6);
}

TEST(Rhythm, HoldsWhatTheWrittenRowsHold) {
  for (const char *name : kNames)
    for (int p = 1; p <= 6; ++p)
      for (int64_t m = 1; m <= 14; ++m) {
        Pipeline pipeline = straightPipeline(p, m);
        Schedule written = findSchedule(name).make(pipeline);
        std::vector<int64_t> round = {1};
        EXPECT_EQ(unwrittenPeaks(*makeUnwritten(name, pipeline)),
                  peakActivations(unroll(written, round), pipeline.stages))
            << name << " " << p << " " << m;
      }
}

/// Several stages per rank, whose orders say as much; links serve the stages of both ranks.
TEST(Rhythm, OfSeveralStagesPerRankIsWhatTheWrittenRowsTake) {
  for (int round = 0; round < 200; round += kEveryCase) {
    std::mt19937 random = drawsOf(7, round);
    const ScheduleKind &kind = findSchedule(round % 2 ? "interleaved" : "zb-v");
    Pipeline pipeline = drawPipeline(kind, random);
    std::vector<Edge> edges = chainEdges(pipeline.stages);
    PlayCosts costs = drawCosts(pipeline, edges.size(), random);
    Schedule unwritten = *makeUnwritten(kind.name, pipeline);
    Schedule written = completeSchedule(kind.make(pipeline), edges);
    EXPECT_EQ(findSplitStages(unwritten), findSplitStages(written));
    EXPECT_NEAR(playUnwritten(unwritten, edges, costs), play(written, edges, costs).seconds, 1e-9)
        << kind.name << " " << round;
    expectDepthsOfWrittenRows(unwritten, written, edges, round);
  }
}

/// With no time on the links, what compiler/schedule/README.md says they idle.
TEST(Rhythm, OfManyRanksWithSeveralStagesTakesTheSecondsOfTheFormulas) {
  const int p = 500, m = 1500;
  PlayCosts costs = equalStages(2 * p, 1, 1, 1);
  Pipeline loop = placedPipeline(StagePlacement::loop, p, 2, m);
  Pipeline fold = placedPipeline(StagePlacement::fold, p, 2, m);
  EXPECT_DOUBLE_EQ(seconds("interleaved", loop, costs), 6.0 * m + (p - 1) * 3.0);
  EXPECT_DOUBLE_EQ(seconds("zb-v", fold, costs), 6.0 * m + (p - 1) * 1.0);
}

/// More than a byte counts.
TEST(Rhythm, OfHundredsOfStagesPerRankTakesTheSecondsOfTheFormulas) {
  const int p = 2, v = 300, m = 4;
  PlayCosts costs = equalStages(p * v, 1, 1, 1);
  Pipeline loop = placedPipeline(StagePlacement::loop, p, v, m);
  std::vector<Edge> edges = chainEdges(loop.stages);
  EXPECT_DOUBLE_EQ(seconds("interleaved", loop, costs), 3.0 * v * m + (p - 1) * 3.0);
  Schedule written = completeSchedule(findSchedule("interleaved").make(loop), edges);
  EXPECT_DOUBLE_EQ(play(written, edges, costs).seconds, 3.0 * v * m + (p - 1) * 3.0);
}

TEST(Rhythm, OfSeveralStagesPerRankHoldsWhatTheWrittenRowsHold) {
  for (const char *name : {"interleaved", "zb-v"})
    for (int places = 2; places <= 5; ++places)
      for (int64_t most = 1; most <= 14; ++most) {
        Pipeline pipeline = anyPipeline(findSchedule(name), places, most, 3);
        std::vector<int64_t> round = {1};
        std::vector<int> peaks =
            peakActivations(unroll(findSchedule(name).make(pipeline), round), pipeline.stages);
        std::vector<int> slots = unwrittenPeaks(*makeUnwritten(name, pipeline));
        // At the turn of the V an activation waits in the slot of its reader.
        for (int stage = 0; stage < pipeline.stages; ++stage)
          if (name[0] == 'i' || stage != places)
            EXPECT_EQ(slots[stage], peaks[stage]) << name << " " << places << " " << most;
          else
            EXPECT_GE(slots[stage], peaks[stage]) << name << " " << places << " " << most;
      }
}

TEST(Rhythm, OthersHaveNone) {
  EXPECT_FALSE(makeUnwritten("2bw", straightPipeline(4, 3)));
  EXPECT_FALSE(
      makeUnwritten("zb-v", placedPipeline(StagePlacement::fold, std::vector{2, 1}, 2, 4)));
  Pipeline synchronised = replicatedPipeline(std::vector{2, 1}, 1);
  synchronised.verticalSync = true;
  EXPECT_FALSE(makeUnwritten("pipedream", synchronised));
  EXPECT_FALSE(makeUnwritten("1f1b", placedPipeline(StagePlacement::loop, 2, 2, 4)));
}

} // namespace
} // namespace pdc
