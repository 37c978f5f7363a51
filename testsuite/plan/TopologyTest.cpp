#include "compiler/plan/Files.h"
#include "compiler/plan/MakePlan.h"
#include "compiler/simulator/Simulator.h"
#include "testsuite/Refusal.h"
#include "testsuite/plan/ExamplePlans.h"

#include <array>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pdc {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Topology parse(const std::string &rest) {
  return parseTopology(
      R"({"levels": [{"workers": 3, "bandwidth": 100, "latency": 1}], )" + rest + "}", "t");
}

std::string topologyRefusal(const std::string &rest) {
  return refusal([&] { parse(rest); });
}

TEST(UnevenTopology, FromAFile) {
  Topology topology = parse(
      R"("links": [{"from": 1, "to": 0, "bandwidth": 7, "latency": 2}], "memory": [5, 3, 9])");
  EXPECT_EQ(topology.linkBetween(0, 1).bytesPerSecond, 7);
  EXPECT_EQ(topology.linkBetween(1, 0).latencySeconds, 2);
  EXPECT_EQ(topology.linkBetween(1, 2).bytesPerSecond, 100);
  EXPECT_THAT(topology.memoryOfWorker, ElementsAre(5, 3, 9));
  EXPECT_EQ(topology.memoryBytes, 3);
  const int two[] = {0, 2};
  EXPECT_EQ(topology.memoryOf(two), 5);
}

TEST(UnevenTopology, Refusals) {
  EXPECT_EQ(topologyRefusal(R"("links": [{"from": 0, "to": 3, "bandwidth": 1}])"),
            "t: links[0].to: expected a whole number from 0 to 2, found 3");
  EXPECT_EQ(topologyRefusal(R"("links": [{"from": 0, "bandwidth": 1}])"),
            "t: links[0].to: expected a whole number from 0 to 2, found nothing");
  EXPECT_EQ(topologyRefusal(R"("links": [{"from": 1, "to": 1, "bandwidth": 1}])"),
            "t: links[0].to: expected another worker than 'from', found 1");
  EXPECT_EQ(topologyRefusal(R"("links": [{"from": 0, "to": 1, "bandwidth": 0}])"),
            "t: links[0].bandwidth: expected at least 1 byte per second, found 0");
  EXPECT_EQ(topologyRefusal(R"("links": [{"from": 0, "to": 1, "bandwidth": 1},
                                 {"from": 1, "to": 0, "bandwidth": 2}])"),
            "t: links[1].to: workers 1 and 0 have a link already; one stands for both directions");
  EXPECT_EQ(topologyRefusal(R"("memory": [1, 2])"),
            "t: memory: expected bytes for each of 3 workers, found 2");
  EXPECT_EQ(topologyRefusal(R"("memory": [1, 2, "all"])"),
            "t: memory[2]: expected a whole number of at least 1, found \"all\"");
  EXPECT_THAT(topologyRefusal(R"("memory": "much")"),
              HasSubstr("t: memory: expected a whole number"));
}

TEST(UnevenTopology, TwoRanksWithALinkOfTheirOwnShareItWithNobody) {
  // 100 bytes from rank 0 to each of the others at once.
  SimulatedProgram program;
  program.transfers = {{0, 1, {}, 100}, {0, 2, {}, 100}};
  program.ranks = {{{0, {}, {}, {0, 1}}}, {{0, {}, {0}, {}}}, {{0, {}, {1}, {}}}};
  EXPECT_NEAR(simulate(program, parse(R"("links": [])")).seconds, 2 + 1, 1e-9);
  Simulation own =
      simulate(program, parse(R"("links": [{"from": 0, "to": 1, "bandwidth": 10, "latency": 3}])"));
  EXPECT_NEAR(own.transfers[0].end, 10 + 3, 1e-9);
  EXPECT_NEAR(own.transfers[1].end, 1 + 1, 1e-9);
}

std::vector<std::array<double, 4>> levelsOf(const Topology &topology) {
  std::vector<std::array<double, 4>> levels;
  for (const Level &level : topology.levels)
    levels.push_back({double(level.workers), level.link.bytesPerSecond, level.link.latencySeconds,
                      double(level.ports)});
  return levels;
}

using Levels = std::vector<std::array<double, 4>>;

TEST(AssumedTopology, ServersStandOnTheNetworkOfTheirPod) {
  // The data sheet of DGX H100: NVSwitch, and a port of 400 Gb/s for each of eight GPUs.
  const Topology servers = assumedTopology("cuda", 2, 8);
  EXPECT_EQ(levelsOf(servers), (Levels{{8, 370e9, 3e-6, 1}, {2, 50e9, 1e-5, 8}}));
  EXPECT_EQ(levelsOf(servers), levelsOf(readTopology("dgx-h100:2")));
  EXPECT_EQ(servers.memoryBytes, readTopology("dgx-h100:2").memoryBytes);
  EXPECT_EQ(servers.device, "h100");
  EXPECT_EQ(servers.assumption,
            "2 servers of 8 devices, 370 GB/s in a server and 50 GB/s between servers through a "
            "port per device; costs that no profile measures are those of h100 (H100 SXM5 80 GB, "
            "NVLink 4)");
  EXPECT_EQ(levelsOf(assumedTopology("a100", 3, 4)),
            (Levels{{4, 250e9, 4e-6, 1}, {3, 25e9, 1e-5, 4}}));
  // Ethernet of 10 Gb/s, one port per server.
  EXPECT_EQ(levelsOf(assumedTopology("cpu", 2, 3)),
            (Levels{{3, 4e9, 2e-6, 1}, {2, 1.25e9, 5e-5, 1}}));
  EXPECT_EQ(levelsOf(assumedTopology("cpu", 4, 1)), (Levels{{4, 1.25e9, 5e-5, 1}}));
}

TEST(AssumedTopology, FlatNumbersAreOneServer) {
  EXPECT_EQ(levelsOf(assumedTopology("cuda", 1, 16)), (Levels{{16, 370e9, 3e-6, 1}}));
  EXPECT_THAT(assumedTopology("cuda", 1, 16).assumption,
              HasSubstr("one server of 16 devices, 370 GB/s between them; "));
  EXPECT_THAT(assumedTopology("cpu", 1, 2, 2).assumption,
              HasSubstr("2 processes of this machine, 4 GB/s between them; "));
}

TEST(AssumedTopology, IsSaidByThePlanAndKeptInItsFile) {
  PlanRequest request = automatic(4, 4);
  request.topology = assumedTopology("cuda", 2, 2);
  const Plan plan = makePlan(chainGraph({1, 1, 1, 1}), request);
  const std::string said = "\nassumed: " + request.topology->assumption + "; --topology FILE";
  EXPECT_THAT(describePlan(plan), HasSubstr(said));
  EXPECT_THAT(describePlan(parsePlan(printPlan(plan), "plan.json")), HasSubstr(said));
  request.topology = parseTopology(R"({"levels": [{"workers": 4, "bandwidth": 1e9}]})", "t");
  EXPECT_THAT(describePlan(makePlan(chainGraph({1, 1, 1, 1}), request)),
              Not(HasSubstr("assumed: ")));
}

PlanRequest threeWorkers(const Topology &topology) {
  PlanRequest request;
  request.workers = 3;
  request.schedule = "1f1b";
  request.microbatches = 6;
  request.topology = topology;
  return request;
}

TEST(UnevenTopology, PlansAvoidTheSlowLink) {
  // v1 is small; where the second link is slow, the cut moves there from v2.
  PlanGraph graph = chainGraph({2, 1, 1, 2});
  Topology even{{{3, {1e6, 0}}}, 0, "cpu"}, uneven = even;
  uneven.links = {{1, 2, {100, 0}}};
  graph.values[1].bytes = 10;
  renewGradients(graph);
  Plan plan = makePlan(graph, threeWorkers(uneven));
  EXPECT_EQ(plan.stages[1].sends[0].tensor, "v1");
  // There and back takes 20 seconds, where the small value is no longer one.
  PlanGraph wide = graph;
  wide.values[1].bytes = 1000;
  renewGradients(wide);
  EXPECT_GT(makePlan(wide, threeWorkers(uneven)).secondsPerMinibatch,
            makePlan(wide, threeWorkers(even)).secondsPerMinibatch + 2);
  EXPECT_NEAR(makePlan(wide, threeWorkers(uneven)).bounds.links, 6 * 1000 / 100.0, 1e-9);
}

TEST(UnevenTopology, StagesGoByTheMemoryOfTheirDevice) {
  PlanGraph graph = chainGraph({1, 1, 1, 1, 1, 1});
  Topology topology{{{3, {1e6, 0}}}, 0, "cpu"};
  int64_t needed = makePlan(graph, threeWorkers(topology)).stages[0].memoryBytes;
  topology.memoryOfWorker = {needed - 1, 2 * needed, 2 * needed};
  topology.memoryBytes = needed - 1;
  PlanRequest request = threeWorkers(topology);
  request.recompute.kind = RecomputeChoice::none;
  Plan plan = makePlan(graph, request);
  EXPECT_EQ(plan.stages[0].nodes.size(), 1u);
  for (const PlanStage &stage : plan.stages)
    EXPECT_LE(stage.memoryBytes, topology.memoryOfWorker[stage.id]);
  EXPECT_EQ(parsePlan(printPlan(plan), "plan.json").topology.memoryOfWorker,
            topology.memoryOfWorker);
  request.topology->memoryOfWorker[2] = 1000;
  EXPECT_THAT(refusal([&] { makePlan(graph, request); }),
              AllOf(HasSubstr("stage 2 needs"), HasSubstr("a device has 1000")));
}

} // namespace
} // namespace pdc
