#include "compiler/Error.h"
#include "compiler/plan/Files.h"
#include "compiler/plan/MakePlan.h"
#include "testsuite/Refusal.h"
#include "testsuite/plan/ExamplePlans.h"

#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <set>

namespace pdc {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

Plan examplePlan(const char *schedule = "1f1b", int workers = 2) {
  PlanGraph graph = chainGraph({1, 2, 3, 4});
  graph.values[0].consumers = {1, 3};
  renewGradients(graph);
  PlanRequest request;
  request.workers = workers;
  request.schedule = schedule;
  request.microbatches = 4;
  request.model = "x\"); system(\"";
  request.microbatchSize = 8;
  request.topology = Topology{{{workers, {1e9, 1e-6}}}, 1 << 30, "cpu"};
  return makePlan(graph, request);
}

TEST(PlanFile, RoundTrip) {
  for (const char *schedule : {"1f1b", "gpipe", "pipedream", "2bw"}) {
    Plan plan = examplePlan(schedule);
    std::string text = printPlan(plan);
    Plan read = parsePlan(text, "plan.json");
    EXPECT_EQ(printPlan(read), text);
    EXPECT_EQ(read.schedule.slotTable, plan.schedule.slotTable);
    EXPECT_EQ(read.schedule.versions, plan.schedule.versions);
  }
}

/// A stage's is the mean of its units', by their seconds: (1 x 1 + 3 x 3) / 4.
TEST(PlanFile, Slowdown) {
  PlanGraph graph = chainGraph({1, 3, 4});
  graph.units[1].slowdown = 3;
  graph.units[0].updateSeconds = graph.units[1].updateSeconds = 1;
  graph.units[1].updateSlowdown = 4;
  PlanRequest request;
  request.workers = 2;
  request.microbatches = 4;
  request.assignment = {
      {graph.units[0].nodes[0], 0}, {graph.units[1].nodes[0], 0}, {graph.units[2].nodes[0], 1}};
  json plan = json::parse(printPlan(makePlan(graph, request)));
  EXPECT_DOUBLE_EQ(plan["stages"][0]["slowdown"], 2.5);
  EXPECT_EQ(plan["stages"][1]["slowdown"], 1);
  EXPECT_DOUBLE_EQ(plan["stages"][0]["update_slowdown"], 2.5);
  Plan read = parsePlan(plan.dump(), "p");
  EXPECT_DOUBLE_EQ(read.stages[0].slowdown, 2.5);
  EXPECT_DOUBLE_EQ(read.stages[0].updateSlowdown, 2.5);
  for (double bad : {0.0, 0.5, 1001.0}) {
    plan["stages"][1]["slowdown"] = bad;
    EXPECT_THAT(refusal([&] { parsePlan(plan.dump(), "p"); }),
                testing::StartsWith("p: stages[1].slowdown: expected 1 to 1000, found "))
        << bad;
  }
  plan["stages"][1].erase("slowdown");
  EXPECT_EQ(parsePlan(plan.dump(), "p").stages[1].slowdown, 1);
}

TEST(PlanFile, HoldsCommunicators) {
  Plan plan = examplePlan();
  plan.communicators = {Arrangement::edges, 4, int64_t(80) << 20, 0.25};
  plan.libraryBytes = 7000;
  plan.stages[0].libraryBytes = 5000;
  std::string text = printPlan(plan);
  EXPECT_EQ(printPlan(parsePlan(text, "p")), text);
  json file = json::parse(text);
  EXPECT_EQ(
      file["communicators"],
      json(
          {{"arrangement", "edges"}, {"count", 4}, {"bytes", 80 << 20}, {"stall_of_pairs", 0.25}}));
  EXPECT_EQ(parsePlan(text, "p").stages[0].libraryBytes, 5000);
  // Both are subtracted and added to others.
  for (auto pointer :
       {json::json_pointer("/library_bytes"), json::json_pointer("/stages/1/library_bytes")})
    for (int64_t bytes : {INT64_MIN, -(int64_t(1) << 46) - 1, (int64_t(1) << 46) + 1}) {
      json damaged = file;
      damaged[pointer] = bytes;
      EXPECT_THAT(refusal([&] { parsePlan(damaged.dump(), "p"); }),
                  HasSubstr("library_bytes: expected a whole number from 0 to "
                            "70368744177664, found "));
    }
  EXPECT_THAT(describePlan(plan), HasSubstr("one per directed edge"));
  file["communicators"]["arrangement"] = "ring";
  EXPECT_EQ(refusal([&] { parsePlan(file.dump(), "p"); }),
            "p: communicators.arrangement: expected pairs or edges, found 'ring'");
}

TEST(PlanFile, HasThePromisedFields) {
  json plan = json::parse(printPlan(examplePlan()));
  for (const char *field :
       {"model", "device", "schedule", "cost_model", "minibatch", "microbatches",
        "seconds_per_minibatch", "data_parallel_seconds_per_minibatch",
        "single_device_seconds_per_minibatch", "bound_seconds_per_minibatch", "planner_seconds",
        "hierarchy", "stages"})
    EXPECT_TRUE(plan.contains(field)) << field;
  for (const char *field : {"id", "ranks", "replicas", "nodes", "forward_seconds",
                            "backward_seconds", "parameter_bytes", "gradient_bytes", "memory_bytes",
                            "in_flight", "weight_versions", "sends"})
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

TEST(PlanFile, ReplicasAndHierarchy) {
  PlanRequest request;
  request.workers = 6;
  request.costModel = "ring-max";
  request.topology = Topology{{{3, {1e9, 0}}, {2, {1e9, 0}}}, 0, ""};
  PlanGraph graph = chainGraph({6, 6, 1, 5});
  // Weights of the last unit cost too much to synchronise.
  graph.units[3].gradientBytes = int64_t(1) << 40;
  Plan plan = makePlan(graph, request);
  std::string text = printPlan(plan);
  EXPECT_EQ(printPlan(parsePlan(text, "p")), text);
  int workers = 0;
  for (const PlanStage &stage : plan.stages)
    workers += stage.replicas;
  EXPECT_EQ(workers, 6);
  int outer = 0;
  json file = json::parse(text);
  for (const json &group : file["hierarchy"]) {
    outer += group["replicas"].get<int>();
    int inner = 0;
    for (const json &stage : group["stages"])
      inner += stage["replicas"].get<int>();
    EXPECT_EQ(inner, 3);
  }
  EXPECT_EQ(outer, 2);
  EXPECT_THAT(describePlan(plan), HasSubstr("pipelining pays: "));
}

TEST(PlanFile, AForeignPlanNeedsNoRows) {
  json plan = json::parse(printPlan(examplePlan()));
  plan.erase("rows");
  plan.erase("edges");
  plan.erase("topology");
  EXPECT_EQ(parsePlan(plan.dump(), "p").schedule.ranks.size(), 2u);
}

TEST(PlanFile, ReplicatedRanksOfSeveralStagesNeedNoRows) {
  PlanRequest request;
  request.workers = 6;
  request.schedule = "interleaved";
  request.chunks = 2;
  request.replicas = {3, 3};
  request.microbatches = 2;
  request.topology = Topology{{{6, {1e9, 0}}}, 0, "cpu"};
  Plan plan = makePlan(chainGraph({1, 1, 1, 1}), request);
  json text = json::parse(printPlan(plan));
  text.erase("rows");
  Schedule rows = parsePlan(text.dump(), "p").schedule;
  EXPECT_FALSE(rows.asynchronous);
  EXPECT_EQ(rows.ranks.size(), 6u);
  EXPECT_EQ(rows.microbatches, plan.schedule.microbatches);
}

std::string planRefusal(const std::function<void(json &)> &change) {
  json plan = json::parse(printPlan(examplePlan()));
  change(plan);
  return refusal([&] { parsePlan(plan.dump(), "p"); });
}

TEST(PlanFile, Refusals) {
  EXPECT_EQ(refusal([] { parsePlan("{", "p"); }),
            "p:1:2: expected JSON, found the end of the file");
  EXPECT_EQ(refusal([] { parsePlan("{\n \"model\": nan}", "p"); }),
            "p:2:12: expected JSON, found 'a'");
  EXPECT_EQ(refusal([] { parsePlan("{\"model\": 1e999}", "p"); }),
            "p:1:11: expected numbers below 1.8e308, found 1e999");
  EXPECT_EQ(refusal([] { parsePlan("{\"model\": " + std::string(1 << 20, '['), "p"); }),
            "p: expected JSON nested at most 64 deep, found more");
  EXPECT_EQ(refusal([] { parsePlan("[]", "p"); }), "p: expected a JSON object, found []");
  EXPECT_EQ(planRefusal([](json &plan) { plan.erase("model"); }),
            "p: model: expected a string, found nothing");
  EXPECT_EQ(planRefusal([](json &plan) { plan["microbatches"] = 0; }),
            "p: microbatches: expected a whole number from 1 to 1048576, found 0");
  EXPECT_EQ(planRefusal([](json &plan) { plan["seconds_per_minibatch"] = -1; }),
            "p: seconds_per_minibatch: expected a number of at least 0, found -1");
  EXPECT_EQ(planRefusal([](json &plan) { plan["precision"] = "fp8"; }),
            "p: precision: expected one of fp32, tf32, bf16, fp16, found 'fp8'");
  EXPECT_EQ(planRefusal([](json &plan) { plan["precision"] = "bf16"; }),
            "p: precision: precision bf16 is not available for device cpu; there is fp32");
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
      "p: rows:1: expected schedule, asynchronous, weights, microbatches, period, stages or rank, "
      "found 'bogus'");
  EXPECT_THAT(planRefusal([](json &plan) {
                std::string rows = plan["rows"][3], send = " 0F0>1#0";
                plan["rows"][3] = rows.erase(rows.find(send), send.size());
              }),
              HasSubstr("p: rows: schedule 1f1b stands still"));
}

TEST(PlanFile, FieldsMustAgree) {
  EXPECT_EQ(planRefusal([](json &plan) { plan["minibatch"] = 33; }),
            "p: minibatch: expected microbatches x microbatch_size, 4 x 8, found 33");
  EXPECT_EQ(planRefusal([](json &plan) { plan["stages"][1]["ranks"] = {2}; }),
            "p: stages[1].ranks: expected ranks from 0 to 1, since the stages name 2, found 2");
  EXPECT_EQ(planRefusal([](json &plan) {
              plan["stages"][1]["ranks"] = {1, 1};
              plan["stages"][1]["replicas"] = 2;
            }),
            "p: stages[1].ranks: expected different ranks, found one twice");
  EXPECT_EQ(
      planRefusal(
          [](json &plan) { plan["stages"][1]["nodes"].push_back(plan["stages"][0]["nodes"][0]); }),
      "p: stages[1].nodes: 'n0' is listed twice, expected once; it stands in stage 0 already");
  EXPECT_EQ(planRefusal([](json &plan) { plan["stages"][0]["sends"][0]["to"] = 0; }),
            "p: stages[0].sends: expected another stage of 0 to 1 as 'to', found 0");
  EXPECT_EQ(planRefusal([](json &plan) { plan["stages"][0]["weight_versions"] = 3; }),
            "p: stages[0].weight_versions: expected a whole number from 1 to 1, found 3");
  EXPECT_EQ(planRefusal([](json &plan) { plan["schedule"] = "gpipe"; }),
            "p: schedule: expected '1f1b' as in rows, found 'gpipe'");
  EXPECT_EQ(planRefusal([](json &plan) { plan["vertical_sync"] = true; }),
            "p: vertical_sync: expected false as in schedule and rows, found true");
  EXPECT_EQ(planRefusal([](json &plan) { plan["topology"]["levels"][0]["workers"] = 1; }),
            "p: topology.levels: expected at least 2 workers, one for each rank, found 1");
  EXPECT_THAT(planRefusal([](json &plan) { plan["hierarchy"][0]["nodes"] = {"n3"}; }),
              HasSubstr("p: hierarchy: expected [{"));
  EXPECT_THAT(planRefusal([](json &plan) {
                plan.erase("rows");
                plan["schedule"] = "dualpipe";
              }),
              HasSubstr("p: schedule: "));
  EXPECT_EQ(
      planRefusal([](json &plan) {
        plan.erase("rows");
        plan["microbatches"] = 1 << 20;
        plan["minibatch"] = 8 << 20;
        for (int stage = 2; stage < 17; ++stage)
          plan["stages"].push_back({{"id", stage}, {"ranks", {stage}}, {"nodes", json::array()}});
        plan.erase("topology");
      }),
      "p: microbatches: expected at most 16777216 over all stages, found 1048576 for each of "
      "17");
}

/// All fields, and all entries of lists, of a file.
void collect(const json &value, const json::json_pointer &place,
             std::vector<json::json_pointer> &places) {
  if (!place.empty())
    places.push_back(place);
  if (value.is_structured())
    for (const auto &[key, inner] : value.items())
      collect(inner, value.is_array() ? place / std::stoul(key) : place / key, places);
}

/// The name of a field, or of the list that an entry stands in.
std::string nameOf(json::json_pointer place) {
  std::string path = place.to_string();
  if (path.starts_with("/hierarchy"))
    return "hierarchy";
  while (std::isdigit(static_cast<unsigned char>(place.back().front())))
    place.pop_back();
  return place.back();
}

bool isRequired(const std::string &field) {
  static const std::set<std::string> fields = {
      "model",        "device",   "schedule", "cost_model", "minibatch",
      "microbatches", "workers",  "stages",   "id",         "ranks",
      "nodes",        "tensor",   "to",       "bandwidth",  "from",
      "bytes",        "producer", "consumer", "levels",     "seconds_per_minibatch"};
  return fields.contains(field);
}

/// Whatever one field is changed to, the plan is read or refused by the field's name.
TEST(PlanFile, EveryFieldIsChecked) {
  json plan = json::parse(printPlan(examplePlan()));
  std::vector<json::json_pointer> places;
  collect(plan, json::json_pointer(), places);
  EXPECT_GT(places.size(), 100u);
  for (const json::json_pointer &place : places) {
    std::string name = nameOf(place);
    const json &value = plan[place];
    for (const json &other :
         {json(nullptr), json(-1), json("x"), json::array(), json::object(), json(true), json(-0.5),
          json(1e300), json(INT64_MAX), json(UINT64_MAX), json(7)}) {
      json changed = plan;
      changed[place] = other;
      std::string text = refusal([&] { parsePlan(changed.dump(), "p"); });
      bool isBelow = other.is_number() && other.get<double>() < 0;
      bool sameKind = value.type_name() == std::string(other.type_name()) && !isBelow &&
                      !(value.is_number_integer() && other.is_number_float());
      if (!sameKind) {
        EXPECT_THAT(text, testing::AllOf(testing::StartsWith("p: "), HasSubstr(name)))
            << place << " = " << other;
      }
    }
    if (place.back() != name)
      continue;
    json without = plan;
    without[place.parent_pointer()].erase(place.back());
    std::string text = refusal([&] { parsePlan(without.dump(), "p"); });
    if (isRequired(name) && place.to_string() != "/topology/device") {
      EXPECT_THAT(text, HasSubstr(name)) << place;
    }
  }
}

TEST(PlanFile, CutTextIsRefusedEverywhere) {
  std::string text = printPlan(examplePlan());
  for (size_t size = 0; size + 2 < text.size(); size += 7)
    EXPECT_THROW(parsePlan(text.substr(0, size), "p"), Error);
}

TEST(StagesFile, BothForms) {
  EXPECT_EQ(parseAssignment(R"({"conv1": 0, "fc": 1})", "s").at("fc"), 1);
  EXPECT_EQ(parseAssignment(printPlan(examplePlan()), "s").at("n3"), 1);
  EXPECT_TRUE(parseReplicas(R"({"conv1": 0, "fc": 1})", "s").empty());
  EXPECT_TRUE(parseReplicas(R"({"stages": [{"ranks": [0]}, {"ranks": [1]}]})", "s").empty());
  std::string shared = R"({"stages": [{"ranks": [0, 1]}, {"ranks": [2]}, {"ranks": [0, 1]}]})";
  EXPECT_EQ(parseReplicas(shared, "s"), (std::vector<int>{2, 1}));
}

TEST(StagesFile, Refusals) {
  EXPECT_EQ(refusal([] { parseAssignment(R"({"conv1": -1})", "s"); }),
            "s: conv1: expected a whole number from 0 to 65535, found -1");
  EXPECT_EQ(refusal([] {
              parseAssignment(
                  R"({"stages": [{"id": 0, "nodes": ["a"]}, {"id": 1, "nodes": ["a"]}]})", "s");
            }),
            "s: stages[1].nodes: node 'a' is listed twice");
  for (const char *none : {"{}", R"({"stages": []})", R"({"stages": [{"id": 0, "nodes": []}]})"})
    EXPECT_EQ(refusal([&] { parseAssignment(none, "s"); }),
              "s: names no node, expected an object of node name to stage, or a plan.json whose "
              "stages list "
              "their nodes");
}

TEST(PlanText, ShowsStagesGridAndTimes) {
  std::string text = describePlan(examplePlan());
  for (const char *part :
       {"plan of x\"); system(\" for 2 x cpu, schedule 1f1b, 4 microbatches per update",
        "stage 0: n0 ... n2\n", "sends v2 to stage 1, 1 KB per microbatch", "stage 0  F0 F1 .  B0",
        "balance", "bound"})
    EXPECT_THAT(text, HasSubstr(part));
}

TEST(PlanText, NamesTheFirstOfManyTensors) {
  Plan plan = examplePlan();
  plan.stages[0].sends.assign(11, {"v", 1, 1024});
  EXPECT_THAT(describePlan(plan),
              HasSubstr("  sends 3 more to stage 1, 3.07 KB per microbatch (plan.json"));
}

} // namespace
} // namespace pdc
