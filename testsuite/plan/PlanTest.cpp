#include "compiler/plan/Cut.h"
#include "compiler/plan/Files.h"
#include "testsuite/Refusal.h"
#include "testsuite/plan/ExamplePlans.h"
#include "testsuite/plan/ExampleRequest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pdc {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string refusalOf(const PlanGraph &graph, const PlanRequest &request) {
  return refusal([&] { makePlan(graph, request); });
}

/// Updates write beside what they read where a stage has several versions: all but the last one's.
TEST(Plan, UpdatesOfSeveralVersions) {
  PlanGraph graph = chainGraph({1, 1, 1});
  for (PlanUnit &unit : graph.units)
    unit.updateSeconds = 2, unit.versionSlowdown = 1.5;
  auto updates = [&](const char *schedule) {
    std::vector<double> seconds;
    for (const PlanStage &stage : makePlan(graph, requestFor(3, schedule, 3)).stages)
      seconds.push_back(stage.updateSeconds);
    return seconds;
  };
  EXPECT_THAT(updates("1f1b"), ElementsAre(2, 2, 2));
  EXPECT_THAT(updates("pipedream"), ElementsAre(3, 3, 2));
  EXPECT_THAT(updates("2bw"), ElementsAre(3, 3, 3));
}

/// All but the first of an update's microbatches add their gradients, which takes thrice as long as
/// the two seconds of writing them, each replica for itself; pipedream updates with each.
TEST(Plan, GradientsAddedToEarlierOnes) {
  PlanGraph graph = chainGraph({1, 1});
  for (PlanUnit &unit : graph.units)
    unit.backwardInputSeconds = 1, unit.backwardWeightSeconds = 2, unit.accumulationSlowdown = 3;
  auto backward = [&](PlanRequest request) {
    std::vector<double> seconds;
    for (const PlanStage &stage : makePlan(graph, request).stages)
      seconds.push_back(stage.backwardSeconds);
    return seconds;
  };
  EXPECT_THAT(backward(requestFor(2, "1f1b", 1)), ElementsAre(3, 3));
  EXPECT_THAT(backward(requestFor(2, "1f1b", 4)), ElementsAre(3 + 3, 3 + 3));
  EXPECT_THAT(backward(requestFor(2, "pipedream", 4)), ElementsAre(3, 3));
  PlanRequest replicas = requestFor(2, "1f1b", 2); // microbatches of each
  replicas.replicas = {2};
  EXPECT_THAT(backward(replicas), ElementsAre(2 * (3 + 2)));
  Plan plan = makePlan(graph, requestFor(2, "1f1b", 4));
  EXPECT_DOUBLE_EQ(plan.singleDeviceSecondsPerMinibatch,
                   4 * plan.stages.size() * (1 + 3) + 3 * plan.stages.size() * 4);
}

/// Of 79 equal units each: a seventh of their seconds, times seven, is less than they take.
TEST(Plan, OfReplicasWhoseSharesAreRounded) {
  PlanRequest request = requestFor(14, "1f1b", 4);
  request.topology->levels[0].link = {1e30, 0};
  request.replicas = {7, 7};
  request.recompute.kind = RecomputeChoice::none;
  Plan plan = makePlan(chainGraph(std::vector<double>(158, 1)), request);
  EXPECT_EQ(plan.stages[0].nodes.size(), 79u);
  EXPECT_EQ(plan.stages[1].nodes.size(), 79u);
}

TEST(Plan, OfMoreChunksThanStagesIsRefused) {
  PlanRequest request = requestFor(2, "interleaved", 4);
  request.chunks = 32'769;
  EXPECT_THAT(
      refusalOf(chainGraph({1, 1}), request),
      HasSubstr("on 2 workers, found 32769 chunks per rank, expected at most 65536 stages"));
}

TEST(Plan, OfSecondsWithoutEndIsRefused) {
  PlanGraph graph = chainGraph({1e308, 1e308});
  EXPECT_THAT(refusalOf(graph, requestFor(2, "1f1b", 4)), HasSubstr("have no end"));
}

TEST(Plan, OfAChain) {
  Plan plan = makePlan(chainGraph({1, 1, 1, 1}), requestFor(2, "1f1b", 4));
  ASSERT_EQ(plan.stages.size(), 2u);
  EXPECT_THAT(plan.stages[0].nodes, ElementsAre("n0", "n1"));
  EXPECT_EQ(plan.stages[0].forwardSeconds, 2);
  EXPECT_EQ(plan.stages[0].backwardSeconds, 4);
  EXPECT_EQ(plan.stages[0].inFlight, 2);
  EXPECT_EQ(plan.stages[1].inFlight, 1);
  EXPECT_EQ(plan.stages[1].weightVersions, 1);
  EXPECT_EQ(plan.stages[0].sends[0].tensor, "v1");
  EXPECT_EQ(plan.stages[1].sends[0].tensor, "v1/grad");
  EXPECT_EQ(plan.minibatch, 16);
  EXPECT_EQ(plan.singleDeviceSecondsPerMinibatch, 48);
  // (m + p - 1) (F + B), and what two activations and two gradients delay the first stage.
  EXPECT_NEAR(plan.secondsPerMinibatch, 30, 0.02);
  EXPECT_LE(plan.boundSecondsPerMinibatch, plan.secondsPerMinibatch);
  EXPECT_NEAR(plan.boundSecondsPerMinibatch, 12 / (1 - 0.75 * 0.75), 1e-9);
  // Half of the microbatches each, and 400 bytes of gradients through the ring.
  EXPECT_NEAR(plan.dataParallelSecondsPerMinibatch, 24 + 400e-6, 1e-9);
}

TEST(Plan, RanksSpendTimeOnTheirMessages) {
  PlanRequest request = requestFor(2, "1f1b", 1);
  request.topology = parseTopology(R"({"levels": [{"workers": 2, "bandwidth": 1000, "latency": 0.5,
                                      "send_bandwidth": 500, "receive_bandwidth": 250}],
                                      "sum_seconds": 0.25})",
                                   "t");
  Plan plan = makePlan(chainGraph({1, 1}), request);
  // F + 2 to hand over, 1.5 on its way, 4 to take + F + B + 2, 1.5, 4 + B: of 1000 bytes each. The
  // sum goes to a rank and back.
  EXPECT_NEAR(plan.secondsPerMinibatch, 2 * 3 + 2 * (2 + 1.5 + 4) + 2 * 0.5 + 0.25, 1e-9);
  Topology read = parsePlan(printPlan(plan), "plan.json").topology;
  EXPECT_EQ(read.sumSeconds, 0.25);
  EXPECT_EQ(read.levels[0].link.sendBytesPerSecond, 500);
  EXPECT_EQ(read.levels[0].link.receiveBytesPerSecond, 250);
}

TEST(Plan, WorkersThatShareACoreAreNoFasterThanOne) {
  PlanRequest request = requestFor(2, "1f1b", 4);
  request.topology->cores = 1;
  Plan plan = makePlan(chainGraph({1, 1, 1, 1}), request);
  EXPECT_EQ(plan.singleDeviceSecondsPerMinibatch, 48);
  EXPECT_EQ(plan.boundSecondsPerMinibatch, 48);
  EXPECT_NEAR(plan.dataParallelSecondsPerMinibatch, 48 + 400e-6, 1e-9);
  EXPECT_GE(plan.secondsPerMinibatch, 48);
  EXPECT_THAT(describePlan(plan), HasSubstr(" 1  of one machine, which 2 ranks share; "));
  // As many cores as two ranks of two threads take, and half of them.
  request.topology->cores = 4;
  request.threads = 2;
  EXPECT_NEAR(makePlan(chainGraph({1, 1, 1, 1}), request).secondsPerMinibatch, 30, 0.02);
  request.topology->cores = 2;
  EXPECT_NEAR(makePlan(chainGraph({1, 1, 1, 1}), request).dataParallelSecondsPerMinibatch,
              48 + 400e-6, 1e-9);
}

TEST(Plan, HalvesOfTheBackwardPass) {
  Plan plan = makePlan(chainGraph({1, 1, 1, 1}), requestFor(2, "zb-h1", 4));
  // Stage 0 sends no gradient, stage 1 sends one that both of its units are in.
  EXPECT_EQ(plan.stages[0].backwardWeightSeconds, 4);
  EXPECT_EQ(plan.stages[1].backwardWeightSeconds, 2);
  // Stage 1 waits for F0 alone and ends with the step.
  EXPECT_NEAR(plan.secondsPerMinibatch, 2 + 4 * 6, 0.02);
  // A third of the work is forward: T = (W/3) / (1 - (1 - 1/12)^2).
  EXPECT_NEAR(plan.boundSecondsPerMinibatch, 4 / (1 - 11.0 / 12 * 11 / 12), 1e-9);
  EXPECT_THAT(describePlan(plan),
              HasSubstr("of the backward pass 2 s are weight gradients that no other stage waits "
                        "for"));
  Plan whole = makePlan(chainGraph({1, 1, 1, 1}), requestFor(2, "1f1b", 4));
  int64_t slots = plan.schedule.slots[1], wholeSlots = whole.schedule.slots[1];
  EXPECT_EQ(plan.stages[1].memoryBytes - whole.stages[1].memoryBytes,
            slots * (2020 + 14) - wholeSlots * 2020);
  EXPECT_EQ(plan.stages[0].memoryBytes - whole.stages[0].memoryBytes,
            (plan.schedule.slots[0] - whole.schedule.slots[0]) * 2020);
  EXPECT_EQ(plan.stages[1].inFlight, 2);
  EXPECT_EQ(parsePlan(printPlan(plan), "plan").stages[1].backwardWeightSeconds, 2);
}

TEST(Plan, Asynchronous) {
  Plan plan = makePlan(chainGraph({1, 1, 1, 1}), requestFor(4, "pipedream", 8));
  EXPECT_EQ(plan.microbatches, 1);
  EXPECT_NEAR(plan.secondsPerMinibatch, 3, 0.01);
  EXPECT_EQ(plan.boundSecondsPerMinibatch, 3);
  for (int stage = 0; stage < 4; ++stage) {
    EXPECT_EQ(plan.stages[stage].weightVersions, 4 - stage);
    EXPECT_EQ(plan.stages[stage].inFlight, 4 - stage);
  }
}

TEST(Plan, VerticalSync) {
  PlanRequest request = requestFor(3, "pipedream", 1);
  Plan stashed = makePlan(chainGraph({1, 1, 1}), request);
  request.verticalSync = true;
  Plan plan = makePlan(chainGraph({1, 1, 1}), request);
  for (int stage = 0; stage < 3; ++stage) {
    EXPECT_EQ(plan.stages[stage].weightVersions, 3);
    EXPECT_EQ(plan.stages[stage].memoryBytes - stashed.stages[stage].memoryBytes,
              stage * plan.stages[stage].parameterBytes);
  }
  EXPECT_THAT(describePlan(plan), HasSubstr("schedule pipedream with vertical sync,"));
  EXPECT_THAT(describePlan(plan), HasSubstr("2  updates that the weights of a gradient lag behind, "
                                            "at every stage"));
  EXPECT_THAT(describePlan(stashed), HasSubstr("at stage 0; 0 at the last"));
  EXPECT_EQ(parsePlan(printPlan(plan), "plan").schedule.versions, plan.schedule.versions);
}

/// Four equal stages without a bubble: a minibatch takes the microbatches of one stage.
TEST(Plan, TwoVersions) {
  Plan plan = makePlan(chainGraph({1, 1, 1, 1}), requestFor(4, "2bw", 8));
  EXPECT_EQ(plan.microbatches, 8);
  EXPECT_EQ(plan.minibatch, 32);
  EXPECT_NEAR(plan.secondsPerMinibatch, 24, 0.05);
  EXPECT_EQ(plan.boundSecondsPerMinibatch, 24);
  for (const PlanStage &stage : plan.stages)
    EXPECT_EQ(stage.weightVersions, 2);
  EXPECT_THAT(describePlan(plan), HasSubstr("1  update that the weights of a gradient lag behind, "
                                            "at every stage"));
  EXPECT_THAT(refusalOf(chainGraph({1, 1, 1}), requestFor(3, "2bw", 2)),
              HasSubstr("as in --microbatches 3"));
}

/// As written rows have it: the first of p stages p, the last one.
TEST(Plan, TwoVersionsOfManyStagesFillAsFewDo) {
  for (int stages : {8, 40}) {
    Plan plan =
        makePlan(chainGraph(std::vector<double>(stages, 1)), requestFor(stages, "2bw", stages));
    EXPECT_EQ(plan.schedule.ranks.empty(), stages == 40);
    for (const PlanStage &stage : plan.stages)
      EXPECT_EQ(stage.inFlight, stages - stage.id) << stage.id;
  }
}

/// Of equal stages the time is a formula, with rows (16 ranks) and without (72): chainGraph's units
/// take a second forward and two back.
TEST(Plan, SeveralStagesPerRankWithoutRows) {
  for (int ranks : {16, 72})
    for (const char *schedule : {"interleaved", "zb-v"}) {
      Plan plan = makePlan(chainGraph(std::vector<double>(2 * ranks, 1)),
                           requestFor(ranks, schedule, 6 * ranks));
      EXPECT_EQ(plan.schedule.ranks.empty(), ranks == 72);
      double idle = schedule[0] == 'i' ? 3.0 : 1.0;
      double seconds = 6 * 6 * ranks + (ranks - 1) * idle;
      EXPECT_NEAR(plan.secondsPerMinibatch, seconds, 0.001 * seconds) << schedule << ranks;
      EXPECT_LE(plan.boundSecondsPerMinibatch, plan.secondsPerMinibatch);
      Plan read = parsePlan(printPlan(plan), "plan");
      EXPECT_EQ(read.schedule.slots, plan.schedule.slots);
      EXPECT_EQ(read.schedule.ranks.empty(), plan.schedule.ranks.empty());
    }
}

TEST(Plan, BoundHoldsForRandomGraphs) {
  std::mt19937 random(11);
  for (int round = 0; round < 100; ++round) {
    int workers = 1 + static_cast<int>(random() % 4);
    PlanGraph graph = randomGraph(workers + static_cast<int>(random() % 8), random);
    const char *names[] = {"gpipe", "1f1b", "pipedream", "zb-h1", "zb-h2"};
    Plan plan = makePlan(graph, requestFor(workers, names[round % 5], 1 + round % 6));
    EXPECT_GE(plan.secondsPerMinibatch, plan.boundSecondsPerMinibatch * (1 - 1e-9));
    EXPECT_FALSE(describePlan(plan).empty());
  }
}

TEST(Plan, LinksOfATopology) {
  Topology topology{{{2, {10, 1}}, {2, {5, 2}}}, 0, ""};
  EXPECT_EQ(topology.workers(), 4);
  EXPECT_EQ(topology.linkBetween(0, 1).bytesPerSecond, 10);
  EXPECT_EQ(topology.linkBetween(1, 2).bytesPerSecond, 5);
  EXPECT_EQ(topology.linkBetween(0, 3).bytesPerSecond, 5);
}

TEST(Plan, ByHand) {
  PlanRequest request = requestFor(2, "gpipe", 2);
  PlanGraph graph = chainGraph({1, 1, 1, 1});
  request.assignment = {{"n0", 0}, {"n3", 1}};
  EXPECT_THAT(makePlan(graph, request).stages[0].nodes, ElementsAre("n0", "n1", "n2"));
  request.assignment = {{"n0", 1}, {"n1", 0}, {"n2", 1}, {"n3", 1}};
  EXPECT_EQ(
      refusalOf(graph, request),
      "stages: 'v0' would go backwards, from node 'n0' (stage 1) to node 'n1' (stage 0); values "
      "go to the same or a later stage");
  request.assignment = {{"n0", 0}, {"n1", 2}};
  EXPECT_EQ(refusalOf(graph, request), "stages: no node has stage 1 of 0 to 2");
  request.assignment = {{"n0", 0}, {"conv9", 1}};
  EXPECT_EQ(refusalOf(graph, request), "stages: the model has no node 'conv9'");
  request.assignment = {{"n0", 0}};
  EXPECT_EQ(refusalOf(graph, request),
            "stages: 1 stages are named, expected one for each of 2 workers");
  request.assignedBy = "net.onnx: its annotations";
  EXPECT_EQ(
      refusalOf(graph, request),
      "net.onnx: its annotations: stages: 1 stages are named, expected one for each of 2 workers; "
      "--stages says others, as in 3-1 (replicas of each stage)");
  request.assignedBy = "";
  graph.units[0].nodes.push_back("relu0");
  request.assignment = {{"n0", 0}, {"relu0", 1}};
  EXPECT_EQ(refusalOf(graph, request),
            "stages: node 'n0' (stage 0) and node 'relu0' (stage 1) are one "
            "kernel; give both the same stage");
}

TEST(Plan, Refusals) {
  PlanGraph graph = chainGraph({1, 1});
  EXPECT_EQ(refusalOf(graph, requestFor(3, "1f1b", 2)),
            "the model has 2 units, which cannot fill 3 stages; use fewer workers");
  EXPECT_EQ(refusalOf(graph, requestFor(2, "1f1b", 0)), "expected at least 1 microbatch, found 0");
  EXPECT_THAT(refusalOf(graph, requestFor(2, "zigzag", 2)),
              HasSubstr("unknown schedule 'zigzag'; known "
                        "schedules: 1f1b, gpipe"));
  EXPECT_EQ(refusalOf({}, requestFor(1, "1f1b", 1)), "the model has no units to plan");
  PlanRequest request = requestFor(2, "1f1b", 2);
  request.workers = 3;
  EXPECT_EQ(refusalOf(graph, request), "the topology has 2 workers, expected 3");
  request = requestFor(2, "1f1b", 2);
  request.memoryBytes = 1000;
  EXPECT_EQ(refusalOf(graph, request),
            "stage 0 needs 8265 bytes of memory and a device has 1000 bytes: 7265 bytes too few, "
            "although it "
            "runs the "
            "forward pass again; what would help: more workers or a smaller microbatch, or a "
            "schedule that holds fewer than 2 microbatches there");
  request.recompute.kind = RecomputeChoice::none;
  EXPECT_EQ(
      refusalOf(graph, request),
      "stage 0 needs 8275 bytes of memory and a device has 1000 bytes: 7275 bytes too few; what "
      "would help: "
      "--recompute auto (it would then need 8265 bytes), more workers or a smaller microbatch, or "
      "a schedule that holds fewer than 2 microbatches there");
  request.recompute = {RecomputeChoice::listed, {2}};
  EXPECT_EQ(refusalOf(graph, request), "--recompute: there is no stage 2; stages are 0 to 1");
  request.recompute = {};
  request.assignment = {{"n0", 0}, {"n1", 1}};
  EXPECT_THAT(refusalOf(graph, request), HasSubstr("a device has 1000"));
  request = requestFor(2, "1f1b", 2);
  request.costModel = "best";
  EXPECT_EQ(refusalOf(graph, request), "unknown cost model 'best'; known cost models: overlap, "
                                       "pipedream-code, pipedream-paper, ring-max");
  graph.values[0].consumers = {0};
  EXPECT_THAT(refusalOf(graph, requestFor(2, "1f1b", 2)),
              HasSubstr("value 'v0' goes from unit 0 to "
                        "unit 0"));
}

TEST(Plan, MemoryKeepsVersionsAndSlots) {
  PlanGraph graph = chainGraph({1, 1});
  Plan plan = makePlan(graph, requestFor(2, "pipedream", 1));
  // Stage 0: 2 versions of 100; gradients, optimizer state and workspace; v0 and its gradient while
  // they are made; two copies of v0 for evaluation; 2 slots of 10 kept bytes and of both.
  EXPECT_EQ(plan.stages[0].memoryBytes, 200 + 100 + 50 + 5 + 2000 + 2000 + 2 * 2010);
  EXPECT_EQ(plan.stages[1].memoryBytes,
            100 + 100 + 50 + 5 + 2000 + 2000 + plan.schedule.slots[1] * 2010);
}

TEST(Plan, RecomputesWhatDoesNotFit) {
  PlanGraph graph = chainGraph({1, 1, 1, 1});
  graph.units[2].parameterBytes = graph.units[3].parameterBytes = 0;
  PlanRequest request = requestFor(2, "gpipe", 4);
  Plan kept = makePlan(graph, request);
  // Two units of 10 kept bytes, for each of four microbatches or for one.
  request.memoryBytes = kept.stages[0].memoryBytes - 1;
  Plan plan = makePlan(graph, request);
  EXPECT_TRUE(plan.stages[0].recompute);
  EXPECT_FALSE(plan.stages[1].recompute);
  EXPECT_EQ(plan.stages[0].memoryBytes, kept.stages[0].memoryBytes - 3 * 20);
  EXPECT_EQ(plan.stages[0].backwardSeconds, 2 * 2 + 2);
  EXPECT_GT(plan.secondsPerMinibatch, kept.secondsPerMinibatch);
  EXPECT_THAT(describePlan(plan), HasSubstr("runs the forward pass again: 2 s of the backward"));
  EXPECT_TRUE(parsePlan(printPlan(plan), "plan").stages[0].recompute);
  request.recompute.kind = RecomputeChoice::none;
  EXPECT_THAT(refusalOf(graph, request),
              HasSubstr("1 bytes too few; what would help: --recompute auto"));
  request.memoryBytes = 0;
  request.recompute = {RecomputeChoice::listed, {1}};
  plan = makePlan(graph, request);
  EXPECT_FALSE(plan.stages[0].recompute);
  EXPECT_TRUE(plan.stages[1].recompute);
  request.recompute.kind = RecomputeChoice::all;
  // Every microbatch takes 2 + 6 seconds on each of the two stages.
  EXPECT_NEAR(makePlan(graph, request).secondsPerMinibatch, 5 * 8, 0.02);
}

TEST(Plan, RecomputedHalvesKeepWhatBothRead) {
  PlanGraph graph = chainGraph({1, 1, 1, 1});
  for (PlanUnit &unit : graph.units)
    unit.inputStashBytes = unit.freedStashBytes = 4;
  PlanRequest request = requestFor(2, "zb-h1", 4);
  Plan kept = makePlan(graph, request);
  request.recompute.kind = RecomputeChoice::all;
  Plan plan = makePlan(graph, request);
  // Stage 0 sends no gradient: its weight gradients alone run the forward pass again.
  EXPECT_EQ(plan.stages[0].backwardWeightSeconds, 4 + 2);
  EXPECT_EQ(plan.stages[0].memoryBytes,
            kept.stages[0].memoryBytes - (plan.schedule.slots[0] - 1) * 20);
  EXPECT_EQ(plan.stages[1].backwardWeightSeconds, 2);
  EXPECT_EQ(plan.stages[1].backwardSeconds, 4 + 2);
  // What is made again for the input gradients alone.
  EXPECT_EQ(plan.stages[1].memoryBytes, kept.stages[1].memoryBytes + 2 * 4);
}

} // namespace
} // namespace pdc
