#include "compiler/schedule/Proof.h"
#include "compiler/Error.h"
#include "compiler/schedule/Rows.h"
#include "compiler/schedule/Schedules.h"
#include "compiler/schedule/Slots.h"
#include "compiler/schedule/Text.h"
#include "testsuite/Refusal.h"
#include "testsuite/schedule/AnyPipeline.h"
#include "testsuite/schedule/Completed.h"

#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pdc {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string orderRefusal(const Schedule &schedule) {
  return refusal([&] { checkOrder(schedule, chainEdges(schedule.stages())); });
}

TEST(Proof, AcceptsTheSchedules) {
  for (const ScheduleKind &kind : schedules())
    for (int chunks : {2, 3}) {
      Schedule made = kind.make(anyPipeline(kind, 4, 6, chunks));
      EXPECT_EQ(refusal(completeSchedule(made, chainEdges(made.stages()))), "accepted");
    }
}

TEST(Proof, DeadlockNamesTheCycleAndMarksTheStep) {
  // Rank 0 waits for the gradient before it sends what the gradient is made from.
  Schedule schedule =
      parseSchedule("schedule mine\nmicrobatches 2\nstages 0 1\n"
                    "rank 0: 0F0 0B0<1#1 0F1 0F0>1#0 0F1>1#0 0B0 0B1<1#1 0B1 allreduce 0U1\n"
                    "rank 1: 1F0<0#0 1F0 1B0 1B0>0#1 1F1<0#0 1F1 1B1 1B1>0#1 allreduce 1U1\n",
                    "mine");
  EXPECT_EQ(refusal(schedule),
            "schedule mine stands still: rank 0 at [0B0<1#1] waits for rank 1; rank 1 at [1F0<0#0] "
            "waits for rank 0\n"
            "stage 0  F0  F1  .   !B0 .   B1\n"
            "stage 1  .   F0  B0  F1  B1  .\n");
}

/// A group begins with what the last run has made.
TEST(Proof, DeadlockMarksTheStepOfTheGroupThatWaits) {
  Schedule schedule = parseSchedule("schedule mine\nmicrobatches 1\nstages 0 1\n"
                                    "rank 0: 0F0 0F0>1#0 0B0<1#1 0B0 allreduce 0U0\n"
                                    "rank 1: 1F0<0#0 1F0 1B0 allreduce 1U0\n",
                                    "mine");
  EXPECT_EQ(refusal(schedule), "schedule mine stands still: rank 0 at [0F0>1#0 0B0<1#1] waits for "
                               "a step that no rank has\n"
                               "stage 0  F0  .   .   !B0\n"
                               "stage 1  .   F0  B0  .\n");
}

TEST(Proof, MissingSend) {
  Schedule schedule = complete("gpipe", 2, 2);
  std::erase_if(schedule.ranks[1].warmUp, [](const Step &step) {
    return step.kind == StepKind::send && step.task.microbatch == 1;
  });
  EXPECT_EQ(refusal(schedule), "schedule gpipe stands still: rank 0 at [0B1<1#1] waits for a step "
                               "that no rank has\n"
                               "stage 0  F0  F1  .   .   B0  !B1\n"
                               "stage 1  .   F0  F1  B0  B1  .\n");
}

TEST(Proof, WrongSlot) {
  Schedule schedule = complete("gpipe", 2, 3);
  schedule.slotTable[0] = {0, 1, 0};
  EXPECT_THAT(refusal(schedule),
              HasSubstr("rank 0 at 0F2: slot 0 of stage 0 still holds microbatch "
                        "0\nstage 0  F0  F1  !F2"));
}

/// Until a group ends, its sends may be on their way.
TEST(Proof, SlotThatIsBeingSentFrom) {
  Schedule schedule =
      parseSchedule("schedule mine\nmicrobatches 2\nstages 0 1 2\n"
                    "rank 0: 0F0 0F0>1#0 0F1 0F1>1#0 allreduce 0U1\n"
                    "rank 1: 1F0<0#0 1F0 1F0>2#2 1F1<0#0 1F1 1F1>2#2 allreduce 1U1\n"
                    "rank 2: 2F0<1#2 2F0 2F1<1#2 2F1 allreduce 2U1\n",
                    "mine");
  schedule.slotTable = {{0, 1}, {0}, {0, 1}};
  schedule.slots = {2, 1, 2};
  schedule.versions = {1, 1, 1};
  EXPECT_THAT(refusal([&] { checkData(schedule, chainEdges(3)); }),
              HasSubstr("rank 1 at 1F1<0#0: its slot is being sent from by 1F0>2#2\n"));
}

/// What stays on a rank needs its consumer's slot as soon as it is made.
TEST(Proof, WrongSlotOfWhatStaysOnItsRank) {
  Schedule schedule = parseSchedule("schedule mine\nmicrobatches 2\nstages 0 0\n"
                                    "rank 0: 0F0 0F1 1F0 1B0 1F1 1B1 0B0 0B1 allreduce 0U1 1U1\n",
                                    "mine");
  schedule = completeSchedule(schedule, chainEdges(2));
  EXPECT_EQ(schedule.slots, (std::vector<int>{2, 2}));
  schedule.slotTable[1] = {0};
  EXPECT_THAT(refusal(schedule),
              HasSubstr("rank 0 at 1F1: slot 0 of stage 1 still holds microbatch 0"));
}

TEST(Proof, DoubledBackward) {
  Schedule schedule = complete("gpipe", 1, 3);
  std::vector<Step> &rows = schedule.ranks[0].warmUp;
  rows.insert(rows.begin() + 4, rows[3]);
  EXPECT_THAT(refusal(schedule), HasSubstr("rank 0 at 0B0: runs twice"));
}

/// Sums know no order; --exact does.
TEST(Proof, BackwardOutOfOrder) {
  Schedule schedule = complete("gpipe", 1, 3);
  std::swap(schedule.ranks[0].warmUp[3], schedule.ranks[0].warmUp[4]);
  EXPECT_EQ(refusal(schedule), "accepted");
  EXPECT_THAT(orderRefusal(schedule), HasSubstr("rank 0 at 0B0: microbatch 1 came before, and "
                                                "--exact sums in ascending order"));
  EXPECT_THAT(orderRefusal(schedule), HasSubstr("F0  F1  F2  B1  !B0 B2"));
}

/// The order of GPipe's paper, on every number of stages and microbatches, with skips.
TEST(Proof, BackwardInReverse) {
  for (int stages = 1; stages <= 5; ++stages)
    for (int microbatches = 2; microbatches <= 8; ++microbatches) {
      Schedule schedule = findSchedule("gpipe").make(straightPipeline(stages, microbatches));
      for (RankRows &rows : schedule.ranks)
        std::reverse(rows.warmUp.begin() + microbatches, rows.warmUp.begin() + 2 * microbatches);
      std::vector<Edge> edges = chainEdges(stages);
      if (stages > 2) {
        int next = static_cast<int>(edges.size());
        edges.push_back({next, "skip", 0, 2, Phase::forward, Phase::forward, 8});
        edges.push_back({next + 1, "back", 2, 0, Phase::backward, Phase::backward, 8});
      }
      schedule = completeSchedule(schedule, edges);
      EXPECT_EQ(schedule.slots, std::vector<int>(stages, microbatches));
      EXPECT_THROW(checkOrder(schedule, edges), Error);
    }
}

TEST(Proof, OrderOfEverySchedule) {
  for (const ScheduleKind &kind : schedules()) {
    Schedule made = kind.make(anyPipeline(kind, 3, 6));
    EXPECT_EQ(orderRefusal(completeSchedule(made, chainEdges(made.stages()))), "accepted");
  }
}

/// Whose update rule says the order.
TEST(Proof, AsynchronousBackwardOutOfOrder) {
  for (const char *backward : {"0B0 0B1", "0B1 0B0"}) {
    Schedule schedule =
        parseSchedule("schedule mine\nasynchronous\nperiod 2\nweights previous\nmicrobatches 2\n"
                      "stages 0\nrank 0 repeat: 0F0 0F1 " +
                          std::string(backward) + " 0U1\n",
                      "mine");
    assignSlots(schedule, {});
    assignVersions(schedule);
    EXPECT_THAT(refusal(schedule),
                HasSubstr(backward[2] == '0' ? "accepted" : "an asynchronous schedule sums"));
  }
}

std::vector<Step>::iterator findRun(std::vector<Step> &rows, Phase phase, int64_t microbatch) {
  return std::ranges::find_if(rows, [&](const Step &step) {
    return step.kind == StepKind::run && step.task.phase == phase &&
           step.task.microbatch == microbatch;
  });
}

TEST(Proof, WeightGradientBeforeItsInputGradient) {
  Schedule schedule = complete("zb-h1", 1, 2);
  std::vector<Step> &rows = schedule.ranks[0].warmUp;
  std::iter_swap(findRun(rows, Phase::backwardInput, 1), findRun(rows, Phase::backwardWeight, 1));
  EXPECT_THAT(refusal(schedule), HasSubstr("rank 0 at 0W1: its input gradient has not run"));
}

TEST(Proof, MissingWeightGradient) {
  Schedule schedule = complete("zb-h1", 2, 3);
  std::vector<Step> &rows = schedule.ranks[1].warmUp;
  rows.erase(findRun(rows, Phase::backwardWeight, 2));
  EXPECT_THAT(
      refusal(schedule),
      HasSubstr("rank 1 at 1U2: the update needs the gradients of microbatches 0 to 2, found "
                "2 gradients up to microbatch 1"));
}

TEST(Proof, DoubledWeightGradient) {
  Schedule schedule = complete("zb-h2", 2, 3);
  std::vector<Step> &rows = schedule.ranks[0].warmUp;
  auto doubled = findRun(rows, Phase::backwardWeight, 1);
  rows.insert(doubled, *doubled);
  EXPECT_THAT(refusal(schedule), HasSubstr("rank 0 at 0W1: runs twice"));
}

TEST(Proof, InputGradientsOutOfOrder) {
  Schedule schedule = complete("zb-h2", 1, 2);
  std::vector<Step> &rows = schedule.ranks[0].warmUp;
  Step first = rows[0], second = *findRun(rows, Phase::forward, 1);
  rows = {first,
          second,
          runStep(0, Phase::backwardInput, 1),
          runStep(0, Phase::backwardInput, 0),
          runStep(0, Phase::backwardWeight, 0),
          runStep(0, Phase::backwardWeight, 1)};
  rows.push_back({.kind = StepKind::allReduce});
  rows.push_back(runStep(0, Phase::update, 1));
  assignSlots(schedule, {});
  EXPECT_EQ(refusal(schedule), "accepted");
  EXPECT_THAT(orderRefusal(schedule), HasSubstr("rank 0 at 0I0: microbatch 1 came before"));
}

TEST(Proof, HalvesOfSomeMicrobatchesOnly) {
  Schedule schedule = parseSchedule("schedule mine\nmicrobatches 2\nstages 0\n"
                                    "rank 0: 0F0 0F1 0B0 0I1 0W1 allreduce 0U1\n",
                                    "mine");
  assignSlots(schedule, {});
  assignVersions(schedule);
  EXPECT_THAT(refusal(schedule), HasSubstr("the update needs the gradients"));
}

TEST(Proof, WrongPeer) {
  Schedule schedule = complete("gpipe", 3, 1);
  schedule.ranks[0].warmUp[1].peer = 2;
  EXPECT_EQ(refusal(schedule), "schedule gpipe: rank 0, step 0F0>2#0: the other end of 'x0' is on "
                               "rank 1\n"
                               "rank 0  0F0 !0F0>2#0 0B0<1#1 0B0 allreduce 0U0\n");
}

TEST(Proof, UpdateBeforeTheSum) {
  Schedule schedule = complete("gpipe", 1, 1);
  std::swap(schedule.ranks[0].warmUp[2], schedule.ranks[0].warmUp[3]);
  EXPECT_THAT(refusal(schedule), HasSubstr("the sum over all ranks has not come"));
}

TEST(Proof, TwoSumsOverRanks) {
  Schedule schedule = complete("gpipe", 2, 1);
  for (RankRows &rows : schedule.ranks)
    rows.warmUp.insert(rows.warmUp.end() - 1, {.kind = StepKind::allReduce});
  EXPECT_THAT(refusal(schedule), HasSubstr("the ranks sum twice for one update"));
}

TEST(Proof, SumOverRanksBeforeAGradient) {
  Schedule schedule = complete("gpipe", 2, 2);
  for (RankRows &rows : schedule.ranks) {
    std::erase_if(rows.warmUp, [](const Step &step) { return step.kind == StepKind::allReduce; });
    auto last = std::ranges::find(rows.warmUp, Task{rows.warmUp[0].task.stage, Phase::backward, 1},
                                  &Step::task);
    rows.warmUp.insert(last, {.kind = StepKind::allReduce});
  }
  EXPECT_THAT(refusal(schedule),
              HasSubstr("the update needs the gradients of microbatches 0 to 1"));
}

TEST(Proof, MissingUpdate) {
  Schedule schedule = complete("pipedream", 2, 1);
  schedule.ranks[1].repeat.pop_back();
  EXPECT_THAT(refusal(schedule), Not(HasSubstr("accepted")));
}

TEST(Proof, TooFewVersions) {
  Schedule schedule = complete("pipedream", 3, 1);
  schedule.versions[0] = 2;
  EXPECT_THAT(refusal(schedule), HasSubstr("which its forward pass read, is overwritten"));
}

Schedule verticallySynced(int stages) {
  Pipeline pipeline = straightPipeline(stages, 1);
  pipeline.verticalSync = true;
  return completeSchedule(pipedream(pipeline), chainEdges(stages));
}

/// The last stage, which runs no microbatch ahead, keeps as many versions as the first.
TEST(Proof, TooFewVersionsUnderVerticalSync) {
  Schedule schedule = verticallySynced(3);
  schedule.versions[2] = 2;
  EXPECT_THAT(refusal(schedule),
              HasSubstr("rank 2 at 2F4: weight version 2, which the update rule says, is "
                        "overwritten; 2 are kept and 4 is the latest"));
}

TEST(Proof, VerticalSyncNeedsEqualReplicas) {
  Pipeline pipeline = replicatedPipeline(std::vector<int>{2, 1}, 1);
  pipeline.verticalSync = true;
  EXPECT_EQ(refusal(pipedream(pipeline)),
            "schedule pipedream: vertical sync needs as many replicas of every stage, found 2-1; "
            "give all stages as many, or leave vertical sync out");
}

TEST(Proof, TwoVersionsAreNotOne) {
  Schedule schedule = complete("2bw", 2, 2);
  schedule.versions[1] = 1;
  EXPECT_THAT(refusal(schedule),
              HasSubstr("weight version 1, which the update rule says, is overwritten; 1 are kept "
                        "and 2 is the latest"));
}

TEST(Proof, TwoVersionsNeedAFullPipeline) {
  EXPECT_EQ(refusal(twoVersions(straightPipeline(3, 2))),
            "schedule 2bw: an update sums 2 microbatches, but stage 0 has 3 in flight; expected at "
            "least as many, as in --microbatches 3");
}

TEST(Proof, SynchronousSchedulesHaveOneVersion) {
  Schedule schedule = complete("gpipe", 2, 1);
  schedule.weightRule = WeightRule::atEntry;
  EXPECT_THAT(refusal(schedule), HasSubstr("a synchronous schedule has one version"));
}

TEST(Proof, WrongVersion) {
  Schedule schedule = complete("pipedream", 2, 1);
  // The forward pass behind the update reads a newer version than the rule says.
  schedule.ranks[0].repeat = {schedule.ranks[0].repeat[2], schedule.ranks[0].repeat[3],
                              schedule.ranks[0].repeat[4], schedule.ranks[0].repeat[0],
                              schedule.ranks[0].repeat[1]};
  EXPECT_THAT(refusal(schedule), HasSubstr("the update rule says version"));
}

TEST(Proof, RowsThatCannotBe) {
  Schedule schedule = complete("gpipe", 2, 1);
  schedule.ranks[0].warmUp[0].task.stage = 5;
  EXPECT_THAT(refusal(schedule), HasSubstr("there are 2 stages"));
  schedule.ranks[0].warmUp[0].task.stage = 1;
  EXPECT_THAT(refusal(schedule), HasSubstr("stage 1 is placed on rank 1"));
  schedule.ranks[0].warmUp[0].task = {0, Phase::forward, 9};
  EXPECT_THAT(refusal(schedule), HasSubstr("expected microbatches from 0 to 0"));
  schedule.ranks[0].warmUp.clear();
  EXPECT_THAT(refusal(schedule), HasSubstr("stage 0 never runs"));
}

} // namespace
} // namespace pdc
