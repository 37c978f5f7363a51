#include "compiler/Error.h"
#include "compiler/schedule/Proof.h"
#include "compiler/schedule/Rows.h"
#include "compiler/schedule/RunCounts.h"
#include "compiler/schedule/Schedules.h"
#include "compiler/schedule/Slots.h"
#include "compiler/schedule/Text.h"
#include "compiler/schedule/Transfers.h"
#include "testsuite/EveryCase.h"
#include "testsuite/Refusal.h"
#include "testsuite/schedule/AnyPipeline.h"
#include "testsuite/schedule/RandomEdges.h"
#include "testsuite/schedule/ToyPipeline.h"
#include "testsuite/schedule/ToyRule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pdc {
namespace {

std::vector<ScheduleKind> synchronousSchedules(bool anyPlacement) {
  std::vector<ScheduleKind> kinds(schedules().begin(), schedules().end());
  std::erase_if(kinds, [&](const ScheduleKind &kind) {
    return !kind.synchronous || (!anyPlacement && kind.placement != StagePlacement::straight);
  });
  return kinds;
}
const std::vector<ScheduleKind> synchronous = synchronousSchedules(true);
/// Of stages that stand anywhere.
const std::vector<ScheduleKind> freelyPlaced = synchronousSchedules(false);

TEST(Transfers, FuseWhatMeets) {
  Schedule schedule = oneFOneB(straightPipeline(2, 2));
  placeTransfers(schedule, chainEdges(2));
  EXPECT_EQ(printSchedule(schedule),
            "schedule 1f1b\nmicrobatches 2\nstages 0 1\n"
            "rank 0: 0F0 0F0>1#0 0F1 0F1>1#0 0B0<1#1 0B0 0B1<1#1 0B1 allreduce 0U1\n"
            "rank 1: 1F0<0#0 1F0 1B0 1B0>0#1 1F1<0#0 1F1 1B1 1B1>0#1 allreduce 1U1\n");
}

TEST(Transfers, SendBeforeTheUpdate) {
  Schedule schedule = pipedream(straightPipeline(2, 1));
  placeTransfers(schedule, chainEdges(2));
  EXPECT_EQ(printSchedule(schedule),
            "schedule pipedream\nasynchronous\nperiod 1\nmicrobatches 1\nstages 0 1\n"
            "rank 0: 0F0 0F0>1#0\n"
            "rank 0 repeat: 0F1 0F1>1#0 0B0<1#1 0B0 0U0\n"
            "rank 0 drain: 0B0<1#1 0B0 0U0\n"
            "rank 1 repeat: 1F0<0#0 1F0 1B0 1B0>0#1 1U0\n"
            "rank 1 drain: 1F0<0#0 1F0 1B0 1B0>0#1 1U0\n");
}

TEST(Transfers, RandomEdgesAreProvenAndRunAlike) {
  int fallbacks = 0;
  for (int round = 0; round < 300; round += kEveryCase) {
    std::mt19937 random = drawsOf(7, round);
    int stages = 2 + static_cast<int>(random() % 5);
    int64_t drawn = 1 + static_cast<int64_t>(random() % 9);
    const ScheduleKind &kind = schedules()[random() % schedules().size()];
    int64_t microbatches = toy::fittingMicrobatches(kind.name, std::vector<int>(stages, 1), drawn);
    Pipeline pipeline = anyPipeline(kind, stages, microbatches, 2 + round % 2);
    std::vector<Edge> edges = randomEdges(pipeline.stages, random);
    SCOPED_TRACE(testing::Message() << kind.name << " p = " << stages << ", m = " << microbatches
                                    << ", round " << round);
    Schedule made = kind.make(pipeline);
    Schedule atRuns = made;
    placeTransfersAtRuns(atRuns, edges);
    fallbacks += findDeadlock(atRuns).has_value();
    Schedule schedule;
    ASSERT_NO_THROW(schedule = completeSchedule(made, edges));
    EXPECT_TRUE(runsCorrectly(schedule, edges));
  }
  EXPECT_GE(fallbacks, 11 / kEveryCase) << "the draw no longer meets the second arrangement";
}

TEST(Transfers, GlobalOrderIsAlwaysProven) {
  for (int round = 0; round < 300; round += kEveryCase) {
    std::mt19937 random = drawsOf(8, round);
    int stages = 2 + static_cast<int>(random() % 6);
    int64_t drawn = 1 + static_cast<int64_t>(random() % 9);
    const ScheduleKind &kind = schedules()[random() % schedules().size()];
    int64_t microbatches = toy::fittingMicrobatches(kind.name, std::vector<int>(stages, 1), drawn);
    Pipeline pipeline = anyPipeline(kind, stages, microbatches, 2 + round % 2);
    std::vector<Edge> edges = randomEdges(pipeline.stages, random);
    SCOPED_TRACE(testing::Message() << kind.name << " p = " << stages << ", m = " << microbatches);
    Schedule schedule = kind.make(pipeline);
    placeTransfersInGlobalOrder(schedule, edges);
    assignSlots(schedule, edges);
    assignVersions(schedule);
    ASSERT_NO_THROW(proveNoDeadlock(schedule, edges));
    ASSERT_NO_THROW(checkData(schedule, edges));
  }
}

/// No gradient holds back stages in front that have nothing to train.
TEST(Transfers, GlobalOrderOfStagesWithoutGradients) {
  for (const ScheduleKind &kind : schedules()) {
    for (int round = 0; !kind.synchronous && round < 60; round += kEveryCase) {
      std::mt19937 random = drawsOf(10, round);
      const int stages = 3 + static_cast<int>(random() % 4);
      const int untrained = 1 + static_cast<int>(random() % (stages - 2));
      std::vector<Edge> edges = randomEdges(stages, random);
      std::erase_if(edges, [&](const Edge &edge) {
        return edge.producer == Phase::backward && edge.toStage < untrained;
      });
      for (size_t id = 0; id < edges.size(); ++id)
        edges[id].id = static_cast<int>(id);
      SCOPED_TRACE(testing::Message() << kind.name << " p = " << stages << ", round " << round);
      const int64_t microbatches =
          toy::fittingMicrobatches(kind.name, std::vector<int>(stages, 1), 1);
      Schedule schedule = kind.make(anyPipeline(kind, stages, microbatches, 2));
      ASSERT_NO_THROW(placeTransfersInGlobalOrder(schedule, edges));
      assignSlots(schedule, edges);
      assignVersions(schedule);
      ASSERT_NO_THROW(proveNoDeadlock(schedule, edges));
      ASSERT_NO_THROW(checkData(schedule, edges));
    }
  }
}

TEST(Transfers, SeveralStagesPerRankWithRandomEdges) {
  for (int round = 0; round < 100; round += kEveryCase) {
    std::mt19937 random = drawsOf(9, round);
    int stages = 2 + static_cast<int>(random() % 5);
    std::vector<std::vector<int>> ranks;
    for (int stage = 0; stage < stages; ++stage)
      ranks.push_back({static_cast<int>(random() % 2)});
    ranks[0] = {0}, ranks.back() = {1};
    std::vector<Edge> edges = randomEdges(stages, random);
    const ScheduleKind &kind = freelyPlaced[random() % freelyPlaced.size()];
    Schedule made = kind.make({stages, ranks, 1 + round % 7});
    Schedule schedule;
    ASSERT_NO_THROW(schedule = completeSchedule(made, edges));
    EXPECT_TRUE(runsCorrectly(schedule, edges));
  }
}

TEST(Transfers, RowsThatWaitForEachOtherAreDrawn) {
  // The last stage runs the microbatches backwards in reverse: stage 1 would need both forward
  // passes first.
  Schedule schedule = parseSchedule("schedule mine\nmicrobatches 2\nstages 0 1 2\n"
                                    "rank 0: 0F0 0F1 0B0 0B1 allreduce 0U1\n"
                                    "rank 1: 1F0 1B0 1F1 1B1 allreduce 1U1\n"
                                    "rank 2: 2F0 2F1 2B1 2B0 allreduce 2U1\n",
                                    "mine");
  EXPECT_EQ(refusal([&] { completeSchedule(schedule, chainEdges(3)); }),
            "schedule mine stands still: rank 1 at 1B0 waits for 2B0 of rank 2; rank 2 at 2F1 "
            "waits for 1F1 of rank 1\n"
            "stage 0  F0  F1  ?B0 .\n"
            "stage 1  .   F0  !B0 .\n"
            "stage 2  .   .   F0  ?F1\n");
}

TEST(Transfers, WhatIsInNoRowIsNamed) {
  Schedule schedule = parseSchedule("schedule mine\nmicrobatches 1\nstages 0 1\n"
                                    "rank 0: 0F0 0B0 allreduce 0U0\n"
                                    "rank 1: 1F0 1W0 allreduce 1U0\n",
                                    "mine");
  EXPECT_EQ(refusal([&] { placeTransfersInGlobalOrder(schedule, chainEdges(2)); }),
            "schedule mine stands still: rank 0 at 0B0 waits for 1I0 of rank 1, which has no such "
            "step left\n"
            "stage 0  F0  !B0 .\n"
            "stage 1  .   F0  W0\n");
}

/// Whose numbers follow from the iterations before it.
TEST(Transfers, AWaitInADrainIsDrawn) {
  Schedule schedule = parseSchedule("schedule mine\nasynchronous\nmicrobatches 1\nperiod 1\n"
                                    "stages 0 1\nrank 0: 0F0\nrank 0 repeat: 0F1 0B0 0U0\n"
                                    "rank 0 drain: 0B0 0U0\nrank 1 repeat: 1F0 1B0 1U0\n"
                                    "rank 1 drain: 1B0 1F0 1U0\n",
                                    "mine");
  EXPECT_EQ(refusal([&] { placeTransfersInGlobalOrder(schedule, chainEdges(2)); }),
            "schedule mine stands still: rank 1 at 1B0 waits for 1F0 of rank 1\n"
            "stage 0  F0  ?B0\n"
            "stage 1  !B0 .\n");
}

TEST(Transfers, AnIterationHasThePeriodsMicrobatches) {
  Schedule schedule =
      parseSchedule("schedule mine\nasynchronous\nmicrobatches 1\nperiod 2\nstages 0 1\n"
                    "rank 0 repeat: 0F0 0B0 0U0\nrank 1 repeat: 1F0 1B0 1U0\n",
                    "mine");
  EXPECT_EQ(refusal([&] { completeSchedule(schedule, chainEdges(2)); }),
            "schedule mine: stage 0 takes 1 microbatches in an iteration, expected its period, 2");
}

TEST(Transfers, SumsThatWaitAreNotDrawnAsRuns) {
  Schedule schedule =
      parseSchedule("schedule mine\nmicrobatches 2\nstages 0,1 0,1\n"
                    "rank 0: 0F0 1F0 1B0 0B0 allreduce:0U1 allreduce:1U1 allreduce 0U1 1U1\n"
                    "rank 1: 0F1 1F1 1B1 0B1 allreduce:1U1 allreduce:0U1 allreduce 0U1 1U1\n",
                    "mine");
  std::string text = refusal([&] { placeTransfersInGlobalOrder(schedule, chainEdges(2)); });
  EXPECT_THAT(text,
              testing::HasSubstr("rank 0 at allreduce:0U1 waits for allreduce:0U1 of rank 1; "
                                 "rank 1 at allreduce:1U1 waits for allreduce:1U1 of rank 0\n"));
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("!")));
}

/// However many microbatches an iteration has, and how few iterations are drawn.
TEST(Transfers, MicrobatchesOfLaterIterationsRunOnce) {
  for (int64_t period : {4, 60}) {
    Schedule schedule = twoVersions(straightPipeline(2, period));
    std::vector<Step> &repeat = schedule.ranks[1].repeat;
    std::vector<Task *> forward;
    for (Step &step : repeat)
      if (step.kind == StepKind::run && step.task.phase == Phase::forward)
        forward.push_back(&step.task);
    ASSERT_GE(forward.size(), 2u);
    forward[1]->microbatch = forward[0]->microbatch + 2 * schedule.period;
    EXPECT_THAT(refusal([&] { checkRowsOfFile(schedule, chainEdges(2)); }),
                testing::HasSubstr("rank 1 runs " + toString(*forward[1]) + " twice"));
  }
}

/// A file of compute rows that somebody has written by hand, with one mistake in it.
TEST(Transfers, MistakesInComputeRowsAreDrawn) {
  int refused = 0;
  for (int round = 0; round < 2000; round += kEveryCase) {
    std::mt19937 random = drawsOf(10, round);
    const ScheduleKind &kind = schedules()[random() % schedules().size()];
    Schedule schedule = kind.make(anyPipeline(kind, 2 + static_cast<int>(random() % 4), 4));
    std::vector<Edge> edges =
        round % 2 ? chainEdges(schedule.stages()) : randomEdges(schedule.stages(), random);
    std::vector<std::vector<Step> *> parts;
    for (RankRows &rows : schedule.ranks)
      for (std::vector<Step> *part : {&rows.warmUp, &rows.repeat, &rows.drain})
        if (!part->empty())
          parts.push_back(part);
    std::vector<Step> &part = *parts[random() % parts.size()],
                      &other = *parts[random() % parts.size()];
    size_t at = random() % part.size(), to = random() % other.size();
    const Step step = part[at];
    switch (random() % 3) {
    case 0:
      std::swap(part[at], other[to]);
      break;
    case 1:
      part.erase(part.begin() + static_cast<ptrdiff_t>(at));
      break;
    default:
      other.insert(other.begin() + static_cast<ptrdiff_t>(to), step);
    }
    SCOPED_TRACE(testing::Message() << "round " << round << "\n" << printSchedule(schedule));
    std::string text = refusal([&] {
      checkRowsOfFile(schedule, chainEdges(schedule.stages()));
      Schedule complete = completeSchedule(schedule, edges);
      proveNoDeadlock(complete, edges);
      checkData(complete, edges);
    });
    if (text == "accepted")
      continue;
    ++refused;
    // What a whole schedule lacks is not at a step.
    if (text.find("microbatches, but stage") == std::string::npos &&
        text.find("microbatches in an iteration") == std::string::npos) {
      EXPECT_THAT(text, testing::ContainsRegex("\n(stage|rank) +[0-9]+ "));
    }
  }
  EXPECT_GE(refused, 1000 / kEveryCase);
}

TEST(Transfers, FewerMicrobatchesEndToo) {
  for (int round = 0; round < 100; round += kEveryCase) {
    std::mt19937 random = drawsOf(10, round);
    int stages = 2 + static_cast<int>(random() % 5);
    const ScheduleKind &kind = synchronous[round % synchronous.size()];
    Pipeline pipeline = anyPipeline(kind, stages, 8, 2 + round % 2);
    std::vector<Edge> edges = randomEdges(pipeline.stages, random);
    Schedule whole = completeSchedule(kind.make(pipeline), edges);
    for (int64_t count = 1; count < pipeline.microbatches; ++count) {
      Schedule tail = whole;
      for (RankRows &rows : tail.ranks)
        std::erase_if(rows.warmUp, [&](const Step &step) { return step.task.microbatch >= count; });
      EXPECT_FALSE(findDeadlock(tail)) << "round " << round << ", " << count << " microbatches";
    }
  }
}

TEST(Transfers, RefuseEdgesThatCannotBe) {
  Schedule schedule = gpipe(straightPipeline(2, 1));
  std::vector<Edge> edges = chainEdges(2);
  edges[0].toStage = 2;
  EXPECT_THROW(placeTransfers(schedule, edges), Error);
  edges = chainEdges(2);
  edges[0].toStage = 0;
  EXPECT_THROW(placeTransfers(schedule, edges), Error);
  edges = chainEdges(2);
  edges[1].id = 7;
  EXPECT_THROW(placeTransfers(schedule, edges), Error);
}

} // namespace
} // namespace pdc
