#include "compiler/simulator/Simulator.h"

#include <gtest/gtest.h>

namespace pdc {
namespace {

/// Two servers of two workers: 10 bytes per second inside, 4 between, one port each unless said.
Topology servers(int ports = 1) { return {{{2, {10, 0.5}, 1}, {2, {4, 2}, ports}}, 0, ""}; }

/// Each of the messages is handed over at the start; all that matters is when they arrive.
std::vector<double> arrivals(const Topology &topology, std::vector<SimulatedTransfer> messages) {
  SimulatedProgram program;
  program.ranks.resize(topology.workers());
  for (size_t i = 0; i < messages.size(); ++i) {
    auto &operations = program.ranks[messages[i].from];
    if (operations.empty())
      operations.emplace_back();
    operations[0].sends.push_back(static_cast<int>(i));
  }
  program.transfers = std::move(messages);
  std::vector<double> ends;
  for (const SimulatedTime &time : simulate(program, topology).transfers)
    ends.push_back(time.end);
  return ends;
}

TEST(Simulator, AMessageTakesItsBytesAndTheLatency) {
  EXPECT_EQ(arrivals(servers(), {{0, 1, {}, 30}}), std::vector<double>{3.5});
  EXPECT_EQ(arrivals(servers(), {{0, 3, {}, 30}}), std::vector<double>{9.5});
  EXPECT_EQ(arrivals(servers(), {{0, 3, {}, 0}}), std::vector<double>{2});
}

TEST(Simulator, MessagesBetweenTwoRanksFollowEachOther) {
  EXPECT_EQ(arrivals(servers(), {{0, 1, {}, 10}, {0, 1, {}, 20}}), (std::vector<double>{1.5, 3.5}));
}

TEST(Simulator, TransfersShareTheLinkOfALevel) {
  // Both leave server 0 and enter server 1: half of 4 bytes per second each.
  EXPECT_EQ(arrivals(servers(), {{0, 2, {}, 8}, {1, 3, {}, 8}}), (std::vector<double>{6, 6}));
  EXPECT_EQ(arrivals(servers(2), {{0, 2, {}, 8}, {1, 3, {}, 8}}), (std::vector<double>{4, 4}));
  // When the shorter one is through after 4 s, the longer one has the link for itself: 8 of 16
  // bytes are left, which take 2 s.
  EXPECT_EQ(arrivals(servers(), {{0, 2, {}, 8}, {1, 3, {}, 16}}), (std::vector<double>{6, 8}));
  // Against each other they do not meet, nor with what stays inside a server.
  EXPECT_EQ(arrivals(servers(), {{0, 2, {}, 8}, {3, 1, {}, 8}, {0, 1, {}, 10}}),
            (std::vector<double>{4, 4, 1.5}));
  // Two senders, one receiver.
  Topology flat{{{3, {10, 0}, 1}}, 0, ""};
  EXPECT_EQ(arrivals(flat, {{0, 2, {}, 10}, {1, 2, {}, 10}}), (std::vector<double>{2, 2}));
}

TEST(Simulator, ASumGoesRoundARing) {
  for (int members = 2; members < 8; ++members) {
    SimulatedProgram program;
    program.transfers.push_back({-1, -1, {}, 120});
    for (int rank = 0; rank < members; ++rank) {
      program.transfers[0].members.push_back(rank);
      program.ranks.push_back({{static_cast<double>(rank), {}, {}, {}}, {0, {0}, {0}, {}}});
    }
    Topology topology{{{members, {10, 0.25}, 1}}, 0, ""};
    // The last joins after members - 1 seconds.
    double expected = members - 1 + 2.0 * (members - 1) / members * 12 + 2 * (members - 1) * 0.25;
    EXPECT_NEAR(simulate(program, topology).seconds, expected, 1e-9);
  }
}

TEST(Simulator, ARankMovesOneSumAtATime) {
  // Of ranks 0 and 1, 1 and 2, 2 and 3, whole after 0, 0.1, and 0.2 s. Each takes a second on its
  // links and a quarter in the hands of its ranks, beside the next one's way.
  SimulatedProgram program;
  program.ranks.resize(4);
  for (int sum : {0, 1, 2}) {
    program.transfers.push_back({-1, -1, {sum, sum + 1}, 10, false, 0.25});
    for (int rank : {sum, sum + 1})
      program.ranks[rank].push_back({0.1 * rank, {sum}, {}, {}});
  }
  Topology topology{{{4, {10, 0}, 1}}, 0, ""};
  Simulation played = simulate(program, topology);
  EXPECT_NEAR(played.transfers[0].end, 1.25, 1e-9);
  EXPECT_NEAR(played.transfers[1].end, 2.25, 1e-9);
  EXPECT_NEAR(played.transfers[2].end, 3.25, 1e-9);
  // Where its hands take longer than its way, they are what the next one waits for.
  for (SimulatedTransfer &sum : program.transfers)
    sum.handlingSeconds = 4;
  EXPECT_NEAR(simulate(program, topology).transfers[2].end, 3 * 4 + 1, 1e-9);
  for (SimulatedTransfer &sum : program.transfers)
    sum.handlingSeconds = 0.25;
  // In the order in which they were whole; those of other ranks go beside them.
  program.ranks[1].insert(program.ranks[1].begin(), {2, {}, {}, {}});
  played = simulate(program, topology);
  EXPECT_NEAR(played.transfers[2].end, 1.45, 1e-9);
  EXPECT_NEAR(played.transfers[0].end, 3.25, 1e-9);
  EXPECT_NEAR(played.transfers[1].end, 4.25, 1e-9);
}

TEST(Simulator, RanksThatComputeAtATimeSlowEachOtherDown) {
  SimulatedProgram program;
  program.ranks = {{{1, {}, {}, {}, 1.5}}, {{2, {}, {}, {}, 1.25}}};
  Topology topology{{{2, {10, 0}, 1}}, 0, "", 2};
  // 1.5 / 1.25 s of the second are done when the first ends; the rest goes on alone.
  EXPECT_NEAR(simulate(program, topology).operations[0][0].end, 1.5, 1e-9);
  EXPECT_NEAR(simulate(program, topology).seconds, 1.5 + 2 - 1.5 / 1.25, 1e-9);
  // Of three cores they use one beside their own instead of two: half as much.
  topology.cores = 3;
  EXPECT_NEAR(simulate(program, topology).operations[0][0].end, 1.25, 1e-9);
  EXPECT_NEAR(simulate(program, topology).seconds, 1.25 + 2 - 1.25 / 1.125, 1e-9);
  // On machines of their own not at all.
  topology.cores = 0;
  EXPECT_NEAR(simulate(program, topology).seconds, 2, 1e-9);
}

TEST(Simulator, RanksShareCores) {
  SimulatedProgram program;
  for (int rank = 0; rank < 3; ++rank)
    program.ranks.push_back({{rank == 2 ? 2.0 : 1.0, {}, {}, {}}});
  Topology topology{{{3, {10, 0}, 1}}, 0, "", 2};
  Simulation played = simulate(program, topology);
  // Two thirds of a core each until two end; the third has one for itself then.
  EXPECT_NEAR(played.operations[0][0].end, 1.5, 1e-9);
  EXPECT_NEAR(played.operations[2][0].end, 2.5, 1e-9);
  // With two threads each one rank after the other, 4 s in all.
  program.threads = 2;
  EXPECT_NEAR(simulate(program, topology).seconds, 4, 1e-9);
  topology.cores = 0;
  EXPECT_EQ(simulate(program, topology).seconds, 2);
}

TEST(Simulator, ReceiversPostAndWait) {
  SimulatedProgram program;
  program.transfers.push_back({0, 1, {}, 10, true});
  program.ranks = {{{1, {}, {}, {0}}, {9, {}, {}, {}}}, {{4, {}, {}, {}}, {1, {0}, {0}, {}}}};
  Topology topology{{{2, {10, 0}, 1}}, 0, ""};
  // Handed over after 1 s, posted after 4, there after 5.
  Simulation played = simulate(program, topology);
  EXPECT_EQ(played.transfers[0].reached, 1);
  EXPECT_EQ(played.transfers[0].start, 4);
  EXPECT_EQ(played.operations[1][1].start, 5);
  EXPECT_EQ(played.stuckRank, -1);
}

TEST(Simulator, WhoWaitsForEverIsNamed) {
  SimulatedProgram program;
  program.transfers.push_back({0, 1, {}, 10});
  program.ranks = {{}, {{1, {}, {0}, {}}}};
  EXPECT_EQ(simulate(program, {{{2, {10, 0}, 1}}, 0, ""}).stuckRank, 1);
}

} // namespace
} // namespace pdc
