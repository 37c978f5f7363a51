#include "compiler/Error.h"
#include "compiler/schedule/Play.h"
#include "compiler/schedule/Proof.h"
#include "compiler/schedule/Schedules.h"

#include <functional>
#include <gtest/gtest.h>

namespace pdc {
namespace {

constexpr double kForward = 1, kBackward = 2;

PlayCosts equalStages(int stages) {
  return {std::vector<StageSeconds>(stages, {kForward, kBackward / 2, kBackward / 2, 0, kForward}),
          {},
          0};
}

void forAllShapes(const std::function<void(int, int64_t)> &check) {
  for (int stages = 1; stages <= 8; ++stages)
    for (int64_t microbatches = 1; microbatches <= 32; ++microbatches) {
      SCOPED_TRACE(testing::Message() << "p = " << stages << ", m = " << microbatches);
      check(stages, microbatches);
    }
}

Schedule complete(const char *name, int stages, int64_t microbatches) {
  return completeSchedule(findSchedule(name).make(straightPipeline(stages, microbatches)),
                          chainEdges(stages));
}

void expectIdle(const Schedule &schedule, int stages) {
  for (TransferModel model : {TransferModel::blocking, TransferModel::overlapped}) {
    Timeline timeline = play(schedule, chainEdges(stages), equalStages(stages), model);
    ASSERT_FALSE(timeline.stall);
    for (double idle : timeline.idle)
      EXPECT_DOUBLE_EQ(idle, (stages - 1) * (kForward + kBackward));
  }
}

TEST(Property, GPipe) {
  forAllShapes([](int stages, int64_t microbatches) {
    Schedule schedule = complete("gpipe", stages, microbatches);
    expectIdle(schedule, stages);
    Timeline timeline = play(schedule, chainEdges(stages), equalStages(stages));
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
    Timeline timeline = play(schedule, chainEdges(stages), equalStages(stages));
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
      EXPECT_DOUBLE_EQ(secondsPerUpdate(schedule, edges, equalStages(stages), model),
                       kForward + kBackward);
    Timeline timeline = play(schedule, edges, equalStages(stages), TransferModel::overlapped, 20);
    for (int stage = 0; stage < stages; ++stage)
      EXPECT_EQ(timeline.peakActivations[stage], stages - stage);
  }
}

TEST(Property, Evaluation) {
  for (int stages = 1; stages <= 8; ++stages) {
    std::vector<Edge> edges;
    for (int stage = 0; stage + 1 < stages; ++stage)
      edges.push_back({stage, "x", stage, stage + 1, Phase::evaluate, Phase::evaluate, 4});
    Schedule schedule = completeSchedule(evaluation(straightPipeline(stages, 1)), edges);
    EXPECT_EQ(schedule.slots, std::vector<int>(stages, 1));
    EXPECT_EQ(schedule.ranks[0].repeat.size(), stages == 1 ? 1u : 2u);
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
      EXPECT_NO_THROW(completeSchedule(evaluation(straightPipeline(stages, 1)), edges));
    }
  }
}

TEST(Property, BackwardAscendsAtEveryStage) {
  for (const ScheduleKind &kind : schedules()) {
    Schedule schedule = kind.make(straightPipeline(4, 9));
    std::vector<int64_t> rounds = {5};
    for (const auto &actions : unroll(schedule, rounds).ranks) {
      int64_t next = 0;
      for (const Action &action : actions) {
        const Step &step = action.steps[0];
        if (step.kind == StepKind::run && step.task.phase == Phase::backward) {
          EXPECT_EQ(step.task.microbatch, next++);
        }
      }
      EXPECT_EQ(next, kind.synchronous ? 9 : 8);
    }
  }
}

TEST(Property, SeveralStagesOnARank) {
  for (const char *name : {"gpipe", "1f1b"})
    for (std::vector<int> ranks :
         {std::vector{0, 0, 1, 1}, {0, 1, 0, 1}, {0, 1, 1, 0}, {0, 0, 0, 0}})
      for (int64_t microbatches : {1, 3, 8}) {
        Schedule made = findSchedule(name).make({4, ranks, microbatches});
        EXPECT_NO_THROW(completeSchedule(made, chainEdges(4)));
      }
}

TEST(Property, TransferSecondsDelay) {
  Schedule schedule = complete("1f1b", 2, 1);
  PlayCosts costs = equalStages(2);
  costs.edges = {0.5, 0.25};
  for (TransferModel model : {TransferModel::blocking, TransferModel::overlapped})
    EXPECT_DOUBLE_EQ(play(schedule, chainEdges(2), costs, model).seconds, 6.75);
}

TEST(Property, RefusesWhatCannotBe) {
  EXPECT_THROW(findSchedule("1f2b"), Error);
  EXPECT_THROW(gpipe({0, {}, 1}), Error);
  EXPECT_THROW(gpipe({2, {0}, 1}), Error);
  EXPECT_THROW(gpipe({2, {0, 2}, 1}), Error);
  EXPECT_THROW(gpipe({2, {0, -1}, 1}), Error);
  EXPECT_THROW(gpipe(straightPipeline(2, 0)), Error);
  EXPECT_THROW(pipedream({2, {0, 0}, 1}), Error);
}

} // namespace
} // namespace pdc
