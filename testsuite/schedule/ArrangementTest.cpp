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
}

} // namespace pdc
