#include "compiler/schedule/Arrangement.h"
#include "compiler/schedule/Schedules.h"

#include <gtest/gtest.h>

namespace pdc {

namespace {

Schedule queuedChain(std::string_view name, int stages, int64_t microbatches) {
  const ScheduleKind &kind = findSchedule(name);
  const int chunks = kind.placement == StagePlacement::straight ? 1 : 2;
  Pipeline pipeline = placedPipeline(kind.placement, stages, chunks, microbatches);
  return completeSchedule(kind.make(pipeline), chainEdges(pipeline.stages));
}

Step message(StepKind kind, int edge, int peer) { return {kind, {}, edge, peer}; }

} // namespace

/// Activations take a second to cross, and a forward pass as long; the rest takes no time. The
/// middle rank's queue sends one and receives the next one after the other, so each microbatch
/// takes it three seconds; on queues of their own they take one together.
TEST(Arrangement, PairsWaitInTheOrderOfTheRows) {
  for (int64_t m : {1, 2, 5, 9}) {
    Schedule schedule = queuedChain("gpipe", 3, m);
    PlayCosts costs;
    costs.stages.assign(3, {1, 0, 0, 0, 1});
    costs.edges = {1, 0, 1, 0};
    EXPECT_DOUBLE_EQ(secondsInQueues(schedule, costs, Arrangement::edges), 2.0 * m + 3);
    EXPECT_DOUBLE_EQ(secondsInQueues(schedule, costs, Arrangement::pairs), 3.0 * m + 2);
  }
}

/// (m + p - 1) (F + B), whatever the queues, where messages take no time.
TEST(Arrangement, MakesNoDifferenceToFreeMessages) {
  for (const char *name : {"gpipe", "1f1b"})
    for (int p = 1; p <= 5; ++p)
      for (int64_t m = 1; m <= 8; ++m) {
        Schedule schedule = queuedChain(name, p, m);
        PlayCosts costs;
        costs.stages.assign(size_t(p), {1, 1, 1, 0, 1});
        for (Arrangement arrangement : {Arrangement::pairs, Arrangement::edges})
          EXPECT_DOUBLE_EQ(secondsInQueues(schedule, costs, arrangement), 3.0 * (m + p - 1));
      }
}

/// Where ranks have several stages these are a ring, and groups of it need not be proven apart.
TEST(Arrangement, PairsOfChainsAreProven) {
  EXPECT_TRUE(findDeadlockOfPairs(queuedChain("interleaved", 4, 8)));
  for (const ScheduleKind &kind : schedules())
    for (int p = 1; p <= 4 && kind.placement == StagePlacement::straight; ++p)
      for (int64_t m : {p, 2 * p, 3 * p}) {
        std::optional<Deadlock> found = findDeadlockOfPairs(queuedChain(kind.name, p, m));
        EXPECT_FALSE(found) << kind.name << " p=" << p << " m=" << m << ": " << found->text;
      }
}

/// What is received first into a slot of its own need not wait; into the slot of what is sent it
/// follows it, and two ranks that both wait so stand still.
TEST(Arrangement, ReceivesFollowSendsOfTheirSlot) {
  constexpr StepKind send = StepKind::send, receive = StepKind::receive;
  for (int slots : {1, 2}) {
    Schedule schedule;
    schedule.name = "exchange";
    schedule.microbatches = 2;
    schedule.ranksOfStage = {{0}, {1}};
    schedule.slotTable = {slots == 1 ? std::vector{0} : std::vector{0, 1}, {0, 1}};
    schedule.ranks.resize(2);
    Step out = message(send, 0, 1), in = message(receive, 1, 1);
    in.task.microbatch = 1;
    schedule.ranks[0].warmUp = {out, in};
    Step back = message(send, 1, 0), taken = message(receive, 0, 0);
    back.task = {1, Phase::forward, 1};
    taken.task = {1, Phase::forward, 0};
    schedule.ranks[1].warmUp = {back, taken};
    EXPECT_FALSE(findDeadlock(schedule));
    std::vector<int64_t> once = {1};
    const UnrolledRows split = splitAtSlots(schedule, unroll(schedule, once));
    EXPECT_EQ(split.ranks[0].size(), slots == 1 ? 2u : 1u);
    EXPECT_EQ(split.ranks[1].size(), 1u);
    schedule.slotTable[1] = schedule.slotTable[0];
    EXPECT_EQ(findDeadlock(schedule).has_value(), slots == 1);
  }
}

/// In both arrangements of queues that are proven. The slots of a group's sends are free behind it
/// alone, so that no receive of it waits.
TEST(Arrangement, ProvenSchedulesEndCallByCall) {
  int split = 0, rings = 0;
  for (const ScheduleKind &kind : schedules())
    for (int p = 1; p <= 8; ++p)
      for (int64_t m : {p, 2 * p, 3 * p}) {
        Schedule schedule = queuedChain(kind.name, p, m);
        EXPECT_FALSE(findDeadlock(schedule)) << kind.name << " p=" << p << " m=" << m;
        std::vector<int64_t> rounds = {schedule.asynchronous ? 3 * p + 4 : 1};
        const UnrolledRows rows = unroll(schedule, rounds);
        const UnrolledRows posted = splitAtSlots(schedule, rows);
        for (size_t rank = 0; rank < rows.ranks.size(); ++rank)
          split += posted.ranks[rank].size() > rows.ranks[rank].size();
        EXPECT_FALSE(findStall(posted, Arrangement::edges))
            << kind.name << " p=" << p << " m=" << m;
        if (findDeadlockOfPairs(schedule))
          ++rings;
        else
          EXPECT_FALSE(findStall(posted, Arrangement::pairs)) << kind.name << " p=" << p;
      }
  EXPECT_EQ(split, 0);
  EXPECT_GT(rings, 0);
}

/// Rank 0 sends and receives at once, which ranks 1 and 2 hand on in turn: as one group it ends,
/// but in the order of the peers rank 0 waits for what only its own message brings about.
TEST(Arrangement, PairsMayStandStillWhereGroupsDoNot) {
  Schedule schedule;
  schedule.name = "ring";
  schedule.ranksOfStage = {{0}, {1}, {2}};
  constexpr StepKind send = StepKind::send, receive = StepKind::receive;
  const Step run{.kind = StepKind::run, .task = {1, Phase::forward, 0}};
  const Step other{.kind = StepKind::run, .task = {2, Phase::forward, 0}};
  schedule.ranks.resize(3);
  schedule.ranks[0].warmUp = {message(send, 0, 1), message(receive, 2, 2)};
  schedule.ranks[1].warmUp = {message(receive, 0, 0), run, message(send, 1, 2)};
  schedule.ranks[2].warmUp = {message(receive, 1, 1), other, message(send, 2, 0)};
  EXPECT_FALSE(findDeadlock(schedule));
  std::optional<Deadlock> found = findDeadlockOfPairs(schedule);
  ASSERT_TRUE(found);
  EXPECT_NE(found->text.find("rank 0 at [0F0<2#2] waits for rank 2"), std::string::npos)
      << found->text;
  std::vector<int64_t> once = {1};
  const UnrolledRows rows = unroll(schedule, once);
  EXPECT_FALSE(findStall(rows, Arrangement::edges));
  EXPECT_EQ(findStall(rows, Arrangement::pairs), "the calls stand still at rank 0, rank 1, rank 2");
}

} // namespace pdc
