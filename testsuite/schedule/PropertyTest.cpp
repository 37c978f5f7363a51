#include "compiler/Error.h"
#include "compiler/schedule/Play.h"
#include "compiler/schedule/Proof.h"
#include "compiler/schedule/Schedules.h"
#include "compiler/schedule/Versions.h"
#include "testsuite/EveryCase.h"
#include "testsuite/schedule/AnyPipeline.h"
#include "testsuite/schedule/Completed.h"

#include <functional>
#include <gtest/gtest.h>
#include <random>

namespace pdc {
namespace {

constexpr double kForward = 1, kBackward = 2;

PlayCosts usualStages(int stages) {
  return equalStages(stages, kForward, kBackward / 2, kBackward / 2);
}

void forAllShapes(const std::function<void(int, int64_t)> &check) {
  for (int stages = 1; stages <= 8; ++stages)
    for (int64_t microbatches = 1; microbatches <= 32; ++microbatches) {
      SCOPED_TRACE(testing::Message() << "p = " << stages << ", m = " << microbatches);
      if ((32 * stages + microbatches) % kEveryCase == 0)
        check(stages, microbatches);
    }
}

void expectIdle(const Schedule &schedule, int stages) {
  for (TransferModel model : {TransferModel::blocking, TransferModel::overlapped}) {
    Timeline timeline = play(schedule, chainEdges(stages), usualStages(stages), model);
    ASSERT_FALSE(timeline.stall);
    for (double idle : timeline.idle)
      EXPECT_DOUBLE_EQ(idle, (stages - 1) * (kForward + kBackward));
  }
}

TEST(Property, GPipe) {
  forAllShapes([](int stages, int64_t microbatches) {
    Schedule schedule = complete("gpipe", stages, microbatches);
    expectIdle(schedule, stages);
    Timeline timeline = play(schedule, chainEdges(stages), usualStages(stages));
    for (int stage = 0; stage < stages; ++stage) {
      EXPECT_EQ(timeline.peakActivations[stage], microbatches);
      EXPECT_EQ(schedule.slots[stage], microbatches);
      EXPECT_EQ(schedule.versions[stage], 1);
    }
  });
}

TEST(Property, OneFOneB) {
  forAllShapes([](int stages, int64_t microbatches) {
    Schedule schedule = complete("1f1b", stages, microbatches);
    expectIdle(schedule, stages);
    Timeline timeline = play(schedule, chainEdges(stages), usualStages(stages));
    for (int stage = 0; stage < stages; ++stage) {
      int64_t held = std::min<int64_t>(stages - stage, microbatches);
      EXPECT_EQ(timeline.peakActivations[stage], held);
      // The next microbatch comes in while the gradient of the last one leaves.
      EXPECT_GE(schedule.slots[stage], held);
      EXPECT_LE(schedule.slots[stage], held + 1);
      EXPECT_EQ(schedule.versions[stage], 1);
    }
  });
}

void forAllCosts(const std::function<void(double, double, double)> &check) {
  for (double forward : {1, 2, 3})
    for (double input : {1, 2, 3, 4})
      for (double weight : {0.5, 1.0, 2.0, 3.0})
        check(forward, input, weight);
}

TEST(Property, ZeroBubbleH1) {
  forAllShapes([](int stages, int64_t microbatches) {
    Schedule schedule = complete("zb-h1", stages, microbatches);
    Timeline timeline = play(schedule, chainEdges(stages), usualStages(stages));
    for (int stage = 0; stage < stages; ++stage) {
      EXPECT_EQ(timeline.peakActivations[stage], std::min<int64_t>(stages, microbatches));
      EXPECT_LE(schedule.slots[stage], stages + 1);
      EXPECT_EQ(schedule.versions[stage], 1);
    }
    forAllCosts([&](double forward, double input, double weight) {
      if (microbatches < stages || std::min(input, weight) > forward)
        return;
      PlayCosts costs = equalStages(stages, forward, input, weight);
      for (double idle : play(schedule, chainEdges(stages), costs).idle)
        EXPECT_DOUBLE_EQ(idle, (stages - 1) * (forward + input - std::min(input, weight)))
            << "F = " << forward << ", I = " << input << ", W = " << weight;
    });
  });
}

TEST(Property, ZeroBubbleH2) {
  forAllShapes([](int stages, int64_t microbatches) {
    Schedule schedule = complete("zb-h2", stages, microbatches);
    Timeline timeline = play(schedule, chainEdges(stages), usualStages(stages));
    for (int stage = 0; stage < stages; ++stage) {
      EXPECT_EQ(timeline.peakActivations[stage], std::min<int64_t>(2 * stages - 1, microbatches));
      EXPECT_LE(schedule.slots[stage], 2 * stages);
      EXPECT_EQ(schedule.versions[stage], 1);
    }
    forAllCosts([&](double forward, double input, double weight) {
      if (microbatches < 2 * stages - 1 || input > 2 * forward || input > 2 * weight)
        return;
      PlayCosts costs = equalStages(stages, forward, input, weight);
      for (double idle : play(schedule, chainEdges(stages), costs).idle)
        EXPECT_DOUBLE_EQ(idle, (stages - 1) * forward)
            << "F = " << forward << ", I = " << input << ", W = " << weight;
    });
  });
}

/// Most activations of a rank's stages at once, each held from its forward pass to the end of its
/// backward pass.
int peakOfRank(const Schedule &schedule, int rank) {
  int held = 0, peak = 0;
  for (const Step &step : schedule.ranks[rank].warmUp) {
    if (step.kind != StepKind::run)
      continue;
    peak = std::max(peak, held += step.task.phase == Phase::forward);
    held -= step.task.phase == Phase::backward || step.task.phase == Phase::backwardWeight;
  }
  return peak;
}

TEST(Property, Interleaved) {
  for (int ranks = 1; ranks <= 8; ++ranks)
    for (int chunks = 1; chunks <= 4; ++chunks)
      for (int64_t microbatches = ranks; microbatches <= 32; microbatches += ranks) {
        SCOPED_TRACE(testing::Message()
                     << "p = " << ranks << ", v = " << chunks << ", m = " << microbatches);
        int stages = ranks * chunks;
        Schedule schedule = completeSchedule(
            interleaved(placedPipeline(StagePlacement::loop, ranks, chunks, microbatches)),
            chainEdges(stages));
        // A chunk takes F / v and B / v.
        for (double idle : play(schedule, chainEdges(stages), usualStages(stages)).idle)
          EXPECT_DOUBLE_EQ(idle, (ranks - 1) * (kForward + kBackward));
        EXPECT_EQ(peakOfRank(schedule, 0),
                  std::min<int64_t>(microbatches * chunks, ranks * chunks + ranks - 1));
        EXPECT_EQ(schedule.versions, std::vector<int>(stages, 1));
      }
}

TEST(Property, ZeroBubbleV) {
  forAllShapes([](int ranks, int64_t microbatches) {
    int stages = 2 * ranks;
    Schedule schedule =
        completeSchedule(zeroBubbleV(placedPipeline(StagePlacement::fold, ranks, 2, microbatches)),
                         chainEdges(stages));
    int peak = 0;
    for (int rank = 0; rank < ranks; ++rank)
      peak = std::max(peak, peakOfRank(schedule, rank));
    EXPECT_EQ(peak, std::min<int64_t>(2 * microbatches, 2 * ranks));
    EXPECT_EQ(schedule.versions, std::vector<int>(stages, 1));
    if (microbatches < 2 * ranks - 1)
      return;
    for (double seconds : {1.0, 3.0})
      for (double idle :
           play(schedule, chainEdges(stages), equalStages(stages, seconds, seconds, seconds)).idle)
        EXPECT_DOUBLE_EQ(idle, (ranks - 1) * seconds);
  });
}

TEST(Property, PipeDream) {
  for (int stages = 1; stages <= 8; ++stages) {
    SCOPED_TRACE(stages);
    Schedule schedule = complete("pipedream", stages, 1);
    std::vector<Edge> edges = chainEdges(stages);
    for (int stage = 0; stage < stages; ++stage) {
      EXPECT_EQ(schedule.versions[stage], stages - stage);
      EXPECT_GE(schedule.slots[stage], stages - stage);
      EXPECT_LE(schedule.slots[stage], stages - stage + 1);
    }
    for (TransferModel model : {TransferModel::blocking, TransferModel::overlapped})
      EXPECT_DOUBLE_EQ(secondsPerUpdate(schedule, edges, usualStages(stages), model),
                       kForward + kBackward);
    Timeline timeline = play(schedule, edges, usualStages(stages), TransferModel::overlapped, 20);
    for (int stage = 0; stage < stages; ++stage)
      EXPECT_EQ(timeline.peakActivations[stage], stages - stage);
  }
}

/// As many versions at every stage as there are stages, whatever the replicas; the rows are those
/// of stashing.
TEST(Property, VerticalSync) {
  for (int stages = 1; stages <= 8; ++stages)
    for (int replicas = 1; replicas <= 3; ++replicas) {
      SCOPED_TRACE(testing::Message() << "p = " << stages << ", r = " << replicas);
      Pipeline pipeline = replicatedPipeline(std::vector<int>(stages, replicas), 1);
      Schedule stashed = completeSchedule(pipedream(pipeline), chainEdges(stages));
      pipeline.verticalSync = true;
      Schedule schedule = completeSchedule(pipedream(pipeline), chainEdges(stages));
      EXPECT_EQ(schedule.versions, std::vector<int>(stages, stages));
      EXPECT_EQ(schedule.slots, stashed.slots);
      for (int stage = 0; stage < stages; ++stage)
        EXPECT_EQ(staleness(schedule, stage), stages - 1);
    }
}

TEST(Property, TwoVersions) {
  forAllShapes([](int stages, int64_t microbatches) {
    if (microbatches < stages)
      return;
    Schedule schedule = complete("2bw", stages, microbatches);
    std::vector<Edge> edges = chainEdges(stages);
    for (int stage = 0; stage < stages; ++stage) {
      EXPECT_EQ(schedule.versions[stage], 2);
      EXPECT_EQ(staleness(schedule, stage), 1);
      EXPECT_GE(schedule.slots[stage], stages - stage);
      EXPECT_LE(schedule.slots[stage], stages - stage + 1);
    }
    EXPECT_DOUBLE_EQ(
        secondsPerUpdate(schedule, edges, usualStages(stages), TransferModel::overlapped),
        kForward + kBackward);
    Timeline timeline = play(schedule, edges, usualStages(stages), TransferModel::overlapped, 2);
    for (int stage = 0; stage < stages; ++stage)
      EXPECT_EQ(timeline.peakActivations[stage], stages - stage);
  });
}

TEST(Property, Evaluation) {
  for (int stages = 1; stages <= 8; ++stages) {
    std::vector<Edge> edges;
    for (int stage = 0; stage + 1 < stages; ++stage)
      edges.push_back({stage, "x", stage, stage + 1, Phase::evaluate, Phase::evaluate, 4});
    Schedule schedule = completeEvaluation(straightPipeline(stages, 1), edges);
    EXPECT_EQ(schedule.slots, std::vector<int>(stages, 1));
    EXPECT_EQ(schedule.ranks[0].repeat.size(), stages == 1 ? 1u : 2u);
  }
}

TEST(Property, EvaluationOfSeveralStagesPerRank) {
  for (StagePlacement placement : {StagePlacement::loop, StagePlacement::fold})
    for (int ranks = 1; ranks <= 8; ++ranks)
      for (int chunks = 2; chunks <= 4; ++chunks) {
        std::vector<Edge> edges;
        for (int stage = 0; stage + 1 < ranks * chunks; ++stage)
          edges.push_back({stage, "x", stage, stage + 1, Phase::evaluate, Phase::evaluate, 4});
        EXPECT_NO_THROW(completeEvaluation(placedPipeline(placement, ranks, chunks, 1), edges));
      }
}

/// What a stage sends over a later stage of the receiving rank comes before that stage runs.
TEST(Property, EvaluationWithAnyEdgesOfSeveralStagesPerRank) {
  std::mt19937 draw(4);
  for (StagePlacement placement : {StagePlacement::loop, StagePlacement::fold})
    for (int round = 0; round < 500; ++round) {
      int ranks = 1 + static_cast<int>(draw() % 4), chunks = 2 + static_cast<int>(draw() % 3);
      std::vector<Edge> edges;
      for (int to = 1; to < ranks * chunks; ++to)
        for (int from = 0; from < to; ++from)
          if (draw() % 4 == 0)
            edges.push_back({static_cast<int>(edges.size()), "x", from, to, Phase::evaluate,
                             Phase::evaluate, 4});
      EXPECT_NO_THROW(completeEvaluation(placedPipeline(placement, ranks, chunks, 1), edges))
          << "round " << round;
    }
}

/// Stages may read nothing of each other, or only of some: then their ranks drift apart.
TEST(Property, EvaluationWithAnyEdges) {
  for (int stages = 2; stages <= 4; ++stages) {
    std::vector<std::pair<int, int>> pairs;
    for (int to = 1; to < stages; ++to)
      for (int from = 0; from < to; ++from)
        pairs.push_back({from, to});
    for (unsigned drawn = 0; drawn < 1u << pairs.size(); ++drawn) {
      SCOPED_TRACE(std::to_string(stages) + " stages, edges " + std::to_string(drawn));
      std::vector<Edge> edges;
      for (size_t i = 0; i < pairs.size(); ++i)
        if (drawn >> i & 1)
          edges.push_back({static_cast<int>(edges.size()), "x", pairs[i].first, pairs[i].second,
                           Phase::evaluate, Phase::evaluate, 4});
      EXPECT_NO_THROW(completeEvaluation(straightPipeline(stages, 1), edges));
    }
  }
}

TEST(Property, BackwardAscendsAtEveryStage) {
  for (const ScheduleKind &kind : schedules()) {
    Schedule schedule = kind.make(anyPipeline(kind, 4, 9));
    std::vector<int64_t> rounds = {5};
    for (const auto &actions : unroll(schedule, rounds).ranks) {
      std::map<std::pair<int, Phase>, int64_t> next;
      for (const Action &action : actions) {
        const Step &step = action.steps[0];
        if (step.kind == StepKind::run && step.task.phase != Phase::update) {
          EXPECT_EQ(step.task.microbatch, (next[{step.task.stage, step.task.phase}]++));
        }
      }
      for (auto [phase, count] : next)
        EXPECT_EQ(count, kind.synchronous        ? schedule.microbatches
                         : kind.sumsMicrobatches ? 5 * 9 + 9
                                                 : 8);
    }
  }
}

TEST(Property, SeveralStagesOnARank) {
  for (const char *name : {"gpipe", "1f1b", "zb-h1", "zb-h2"})
    for (std::vector<std::vector<int>> ranks : {std::vector<std::vector<int>>{{0}, {0}, {1}, {1}},
                                                {{0}, {1}, {0}, {1}},
                                                {{0}, {1}, {1}, {0}},
                                                {{0}, {0}, {0}, {0}}})
      for (int64_t microbatches : {1, 3, 8}) {
        Schedule made = findSchedule(name).make({4, ranks, microbatches});
        EXPECT_NO_THROW(completeSchedule(made, chainEdges(4)));
      }
}

/// Stages of a rank follow each other around the ranks, v times.
TEST(Property, LoopsOfStages) {
  for (const ScheduleKind &kind : schedules())
    for (int ranks = 1; kind.synchronous && ranks <= 8; ++ranks)
      for (int chunks = 2; chunks <= 4; ++chunks)
        for (int64_t microbatches : {1, 2, ranks, ranks + 1, 32}) {
          SCOPED_TRACE(testing::Message() << kind.name << ", p = " << ranks << ", v = " << chunks
                                          << ", m = " << microbatches);
          if (kind.placement != StagePlacement::straight)
            continue;
          Pipeline pipeline = placedPipeline(StagePlacement::loop, ranks, chunks, microbatches);
          EXPECT_NO_THROW(completeSchedule(kind.make(pipeline), chainEdges(pipeline.stages)));
        }
}

TEST(Property, TransferSecondsDelay) {
  Schedule schedule = complete("1f1b", 2, 1);
  PlayCosts costs = usualStages(2);
  costs.edges = {0.5, 0.25};
  for (TransferModel model : {TransferModel::blocking, TransferModel::overlapped})
    EXPECT_DOUBLE_EQ(play(schedule, chainEdges(2), costs, model).seconds, 6.75);
}

TEST(Property, RefusesWhatCannotBe) {
  EXPECT_THROW(findSchedule("1f2b"), Error);
  EXPECT_THROW(gpipe({0, {}, 1}), Error);
  EXPECT_THROW(gpipe({2, {{0}}, 1}), Error);
  EXPECT_THROW(gpipe({2, {{0}, {2}}, 1}), Error);
  EXPECT_THROW(gpipe({2, {{0}, {-1}}, 1}), Error);
  EXPECT_THROW(gpipe(straightPipeline(2, 0)), Error);
  EXPECT_THROW(pipedream({2, {{0}, {0}}, 1}), Error);
  EXPECT_THROW(twoVersions({2, {{0}, {0}}, 2}), Error);
  EXPECT_THROW(complete("2bw", 3, 2), Error);
}

void expectRefusal(const char *name, const Pipeline &pipeline, const char *message) {
  try {
    findSchedule(name).make(pipeline);
    ADD_FAILURE() << "accepted";
  } catch (const Error &error) {
    EXPECT_STREQ(error.what(), message);
  }
}

TEST(Property, PlacementsOfSeveralStagesPerRank) {
  EXPECT_EQ(placedPipeline(StagePlacement::fold, 3, 2, 1).ranksOfStage,
            (std::vector<std::vector<int>>{{0}, {1}, {2}, {2}, {1}, {0}}));
  expectRefusal("interleaved", placedPipeline(StagePlacement::loop, 2, 2, 5),
                "schedule interleaved needs a multiple of its 2 ranks as microbatches, found 5; "
                "use 4 or 6");
  expectRefusal("interleaved", placedPipeline(StagePlacement::fold, 2, 2, 4),
                "schedule interleaved places stage s on rank s mod p, as many stages on each of p "
                "ranks, found 4 stages on 2 ranks placed otherwise");
  expectRefusal("zb-v", straightPipeline(2, 4),
                "schedule zb-v places stages r and 2p-1-r on rank r of p, found 2 stages on 2 "
                "ranks placed otherwise");
}

} // namespace
} // namespace pdc
