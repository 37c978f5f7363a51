#include "compiler/Error.h"
#include "compiler/plan/Files.h"
#include "compiler/plan/MakePlan.h"
#include "compiler/plan/Profile.h"
#include "testsuite/plan/ExampleGraphs.h"

#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace pdc {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

Plan examplePlan(const char *schedule = "1f1b", int workers = 2) {
  PlanGraph graph = chainGraph({1, 2, 3, 4});
  graph.values[0].consumers = {1, 3};
  PlanRequest request;
  request.workers = workers;
  request.schedule = schedule;
  request.microbatches = 4;
  request.model = "x\"); system(\"";
  request.topology = Topology{{{workers, {1e9, 1e-6}}}, 1 << 30, "cpu"};
  return makePlan(graph, request);
}

template <class Function> std::string refusal(Function function) {
  try {
    function();
  } catch (const Error &error) {
    return error.what();
  }
  return "accepted";
}

TEST(PlanFile, RoundTrip) {
  for (const char *schedule : {"1f1b", "gpipe", "pipedream"}) {
    Plan plan = examplePlan(schedule);
    std::string text = printPlan(plan);
    Plan read = parsePlan(text, "plan.json");
    EXPECT_EQ(printPlan(read), text);
    EXPECT_EQ(read.schedule.slotTable, plan.schedule.slotTable);
    EXPECT_EQ(read.schedule.versions, plan.schedule.versions);
  }
}

TEST(PlanFile, HasThePromisedFields) {
  json plan = json::parse(printPlan(examplePlan()));
  for (const char *field :
       {"model", "device", "schedule", "cost_model", "minibatch", "microbatches",
        "seconds_per_minibatch", "data_parallel_seconds_per_minibatch",
        "single_device_seconds_per_minibatch", "bound_seconds_per_minibatch", "planner_seconds",
        "hierarchy", "stages"})
    EXPECT_TRUE(plan.contains(field)) << field;
  for (const char *field :
       {"id", "ranks", "replicas", "nodes", "forward_seconds", "backward_seconds",
        "parameter_bytes", "memory_bytes", "in_flight", "weight_versions", "sends"})
    EXPECT_TRUE(plan["stages"][0].contains(field)) << field;
  EXPECT_EQ(plan["stages"][0]["sends"][0]["to"], 1);
  EXPECT_EQ(plan["hierarchy"].size(), 2u);
  EXPECT_EQ(plan["hierarchy"][1]["nodes"], plan["stages"][1]["nodes"]);
}

TEST(PlanFile, HierarchyNestsAsTheTopologyDoes) {
  PlanRequest request;
  request.workers = 4;
  request.microbatches = 4;
  request.topology = Topology{{{2, {1e9, 0}}, {2, {1e8, 0}}}, 0, "cpu"};
  json plan = json::parse(printPlan(makePlan(chainGraph({1, 1, 1, 1}), request)));
  ASSERT_EQ(plan["hierarchy"].size(), 2u);
  EXPECT_EQ(plan["hierarchy"][1]["stages"][0]["nodes"], json({"n2"}));
}

TEST(PlanFile, AForeignPlanNeedsNoRows) {
  json plan = json::parse(printPlan(examplePlan()));
  plan.erase("rows");
  plan.erase("edges");
  plan.erase("topology");
  EXPECT_EQ(parsePlan(plan.dump(), "p").schedule.ranks.size(), 2u);
}

std::string planRefusal(const std::function<void(json &)> &change) {
  json plan = json::parse(printPlan(examplePlan()));
  change(plan);
  return refusal([&] { parsePlan(plan.dump(), "p"); });
}

TEST(PlanFile, Refusals) {
  EXPECT_THAT(refusal([] { parsePlan("{", "p"); }), HasSubstr("p: not JSON: "));
  EXPECT_EQ(refusal([] { parsePlan("[]", "p"); }), "p: expected a JSON object, found []");
  EXPECT_EQ(planRefusal([](json &plan) { plan.erase("model"); }),
            "p: model: expected a string, found nothing");
  EXPECT_EQ(planRefusal([](json &plan) { plan["microbatches"] = 0; }),
            "p: microbatches: expected a whole number from 1 to 2147483647, found 0");
  EXPECT_EQ(planRefusal([](json &plan) { plan["seconds_per_minibatch"] = -1; }),
            "p: seconds_per_minibatch: expected a number of at least 0, found -1");
  EXPECT_EQ(planRefusal([](json &plan) { plan["stages"] = 7; }),
            "p: stages: expected a list, found 7");
  EXPECT_EQ(planRefusal([](json &plan) { plan["stages"] = json::array(); }),
            "p: stages: expected at least one stage");
  EXPECT_EQ(planRefusal([](json &plan) { plan["stages"][1]["id"] = 5; }),
            "p: stages[1].id: expected a whole number from 1 to 1, found 5");
  EXPECT_EQ(planRefusal([](json &plan) { plan["stages"][1]["ranks"] = {"a"}; }),
            "p: stages[1].ranks[0]: expected a whole number from 0 to 65535, found \"a\"");
  EXPECT_EQ(planRefusal([](json &plan) {
              plan["stages"][0]["ranks"] = {0, 1};
            }),
            "p: stages[0].ranks: expected one for each of 1 replicas, found 2");
  EXPECT_EQ(planRefusal([](json &plan) { plan["edges"][0]["to"] = 9; }),
            "p: edges[0].to: expected a whole number from 0 to 1, found 9");
  EXPECT_EQ(
      planRefusal([](json &plan) { plan["rows"][0] = "bogus"; }),
      "p: rows:1: expected schedule, asynchronous, microbatches, period, stages or rank, found "
      "'bogus'");
  EXPECT_THAT(planRefusal([](json &plan) { plan["rows"][3] = "rank 0: 0F0 0B0"; }),
              HasSubstr("p: rows: schedule 1f1b stands still"));
}

TEST(PlanFile, CutTextIsRefusedEverywhere) {
  std::string text = printPlan(examplePlan());
  for (size_t size = 0; size + 2 < text.size(); size += 7)
    EXPECT_THROW(parsePlan(text.substr(0, size), "p"), Error);
}

TEST(TopologyFile, Reads) {
  Topology topology = parseTopology(
      R"({"levels": [{"workers": 4, "bandwidth": 8e9, "latency": 5e-6},
          {"workers": 2, "bandwidth": 1.25e9, "latency": 2e-5}], "memory": 17179869184, "device": "v100"})",
      "t");
  EXPECT_EQ(topology.workers(), 8);
  EXPECT_EQ(topology.memoryBytes, 17179869184);
  EXPECT_EQ(topology.levels[1].link.latencySeconds, 2e-5);
}

TEST(TopologyFile, Refusals) {
  auto read = [](const char *text) { return refusal([&] { parseTopology(text, "t"); }); };
  EXPECT_EQ(read("{}"), "t: levels: expected at least one level");
  EXPECT_EQ(read(R"({"levels": [{"workers": 0, "bandwidth": 1}]})"),
            "t: levels[0].workers: expected a whole number from 1 to 65536, found 0");
  EXPECT_EQ(read(R"({"levels": [{"workers": 2}]})"),
            "t: levels[0].bandwidth: expected a number, found nothing");
  EXPECT_EQ(read(R"({"levels": [{"workers": 2, "bandwidth": 0}]})"),
            "t: levels[0].bandwidth: expected bytes per second above 0");
  EXPECT_EQ(read(R"({"levels": [{"workers": 2.5, "bandwidth": 1}]})"),
            "t: levels[0].workers: expected a whole number from 1 to 65536, found 2.5");
  EXPECT_EQ(
      read(
          R"({"levels": [{"workers": 60000, "bandwidth": 1}, {"workers": 60000, "bandwidth": 1}]})"),
      "t: levels[1].workers: expected at most 65536 in all");
}

TEST(ProfileFile, RoundTripAndApply) {
  Profile profile{"m.onnx", "cpu", 2, 32, chainGraph({1, 2})};
  std::string text = printProfile(profile);
  Profile read = parseProfile(text, "p");
  EXPECT_EQ(printProfile(read), text);
  PlanGraph graph = chainGraph({7, 7});
  graph.units[0].stashBytes = 99;
  applyProfile(graph, read);
  EXPECT_EQ(graph.units[1].forwardSeconds, 2);
  EXPECT_EQ(graph.units[0].stashBytes, 99);
  graph.units[1].name = "other";
  EXPECT_THAT(refusal([&] { applyProfile(graph, read); }), HasSubstr("has no unit 'other'"));
}

TEST(ProfileFile, Refusals) {
  auto read = [](const char *text) { return refusal([&] { parseProfile(text, "p"); }); };
  EXPECT_EQ(read("{}"), "p: units: expected at least one unit");
  EXPECT_EQ(read(R"({"units": [{"name": "a"}, {"name": "a"}]})"),
            "p: units[1].name: two units have the name 'a'");
  EXPECT_EQ(read(R"({"units": [{"name": "a", "forward_seconds": "x"}]})"),
            "p: units[0].forward_seconds: expected a number of at least 0, found \"x\"");
  EXPECT_EQ(read(R"({"units": [{"name": "a"}], "values": [{"name": "v", "producer": 1}]})"),
            "p: values[0].producer: expected a whole number from 0 to 0, found 1");
  EXPECT_EQ(read(R"({"units": [{"name": "a"}],
                     "values": [{"name": "v", "producer": 0, "consumers": [0], "bytes": 1}]})"),
            "p: value 'v' goes from unit 0 to unit 0, expected a later one of 1");
}

TEST(StagesFile, BothForms) {
  EXPECT_EQ(parseAssignment(R"({"conv1": 0, "fc": 1})", "s").at("fc"), 1);
  EXPECT_EQ(parseAssignment(printPlan(examplePlan()), "s").at("n3"), 1);
}

TEST(StagesFile, Refusals) {
  EXPECT_EQ(refusal([] { parseAssignment(R"({"conv1": -1})", "s"); }),
            "s: conv1: expected a whole number from 0 to 65535, found -1");
  EXPECT_EQ(refusal([] {
              parseAssignment(
                  R"({"stages": [{"id": 0, "nodes": ["a"]}, {"id": 1, "nodes": ["a"]}]})", "s");
            }),
            "s: stages[1].nodes: node 'a' is listed twice");
  EXPECT_EQ(refusal([] { readAssignment("/nowhere/stages.json"); }),
            "/nowhere/stages.json: no such file");
}

TEST(Trace, OneBarPerRun) {
  Plan plan = examplePlan();
  json trace = json::parse(predictTrace(plan, 1));
  int forward = 0, sends = 0;
  for (const json &event : trace["traceEvents"]) {
    forward += event.value("cat", "") == "forward";
    sends += event.value("cat", "") == "send";
  }
  EXPECT_EQ(forward, 8);
  EXPECT_EQ(sends, static_cast<int>(4 * plan.edges.size()));
}

TEST(PlanText, ShowsStagesGridAndTimes) {
  std::string text = describePlan(examplePlan());
  for (const char *part :
       {"plan of x\"); system(\" for 2 x cpu, schedule 1f1b, 4 microbatches per update",
        "stage 0: n0 ... n2\n", "sends v2 to stage 1, 1 KB per microbatch", "stage 0  F0 F1 .  B0",
        "balance", "bound"})
    EXPECT_THAT(text, HasSubstr(part));
}

} // namespace
} // namespace pdc
