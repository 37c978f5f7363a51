#include "testsuite/DamagedText.h"

#include "compiler/Error.h"
#include "compiler/plan/Files.h"
#include "compiler/plan/MakePlan.h"
#include "compiler/plan/Profile.h"
#include "compiler/schedule/Rows.h"
#include "compiler/schedule/Schedules.h"
#include "compiler/schedule/Text.h"
#include "testsuite/EveryCase.h"
#include "testsuite/plan/ExamplePlans.h"

#include <functional>
#include <gtest/gtest.h>

namespace pdc {
namespace {

/// A text file of the user's, and what pdc does with it.
struct TextFile {
  const char *name;
  std::string text;
  std::function<void(const std::string &text)> use;
};

PlanRequest twoWorkers() {
  PlanRequest request;
  request.workers = 2;
  request.schedule = "1f1b";
  request.microbatches = 4;
  return request;
}

void planOn(const Topology &topology) {
  if (topology.workers() > 8)
    return;
  PlanRequest request = twoWorkers();
  request.workers = topology.workers();
  request.topology = topology;
  makePlan(chainGraph({1, 2, 3, 4, 3, 2, 1, 2}), request);
}

std::string scheduleText() {
  Pipeline pipeline = straightPipeline(3, 4);
  return printSchedule(completeSchedule(oneFOneB(pipeline), chainEdges(3)));
}

std::vector<TextFile> textFiles() {
  PlanGraph graph = chainGraph({1, 2, 3});
  return {
      {"topology",
       R"({"levels": [{"workers": 2, "bandwidth": 8e9, "latency": 5e-6},
                      {"workers": 2, "bandwidth": 1.25e9, "latency": 2e-5}],
           "links": [{"from": 0, "to": 1, "bandwidth": 1e8, "latency": 1e-3}],
           "memory": [17179869184, 17179869184, 8589934592, 8589934592], "device": "v100"})",
       [](const std::string &text) { planOn(parseTopology(text, "f")); }},
      {"plan.json", printPlan(makePlan(graph, twoWorkers())),
       [](const std::string &text) { describePlan(parsePlan(text, "f")); }},
      {"--stages", R"({"n0": 0, "n1": 0, "n2": 1})",
       [graph](const std::string &text) {
         PlanRequest request = twoWorkers();
         request.assignment = parseAssignment(text, "f");
         makePlan(graph, request);
       }},
      {"rows", scheduleText(),
       [](const std::string &text) {
         Schedule read = parseSchedule(text, "f");
         completeSchedule(read, chainEdges(read.stages()));
       }},
      {"profile.json", printProfile({"m.onnx", "cpu", Precision::fp32, 2, 32, graph}),
       [](const std::string &text) { makePlan(parseProfile(text, "f").graph, twoWorkers()); }},
      {"graph.txt",
       "node1 -- Input0 -- forward_compute_time=0, backward_compute_time=0, activation_size=1, "
       "parameter_size=0\n"
       "node2 -- B -- forward_compute_time=1.5, backward_compute_time=2.5, activation_size=[8.0; "
       "4.0], "
       "parameter_size=16.0 -- stage_id=0\n"
       "node3 -- A -- forward_compute_time=1, backward_compute_time=2, activation_size=2, "
       "parameter_size=0\n"
       "\tnode1 -- node2\n\tnode2 -- node3\n",
       [](const std::string &text) {
         makePlan(parsePipeDreamProfile(text, "f").graph, twoWorkers());
       }},
  };
}

/// Any other exception, and any crash, fails the test.
bool isRefused(const TextFile &file, const std::string &text) {
  SCOPED_TRACE(text);
  try {
    file.use(text);
    return false;
  } catch (const Error &error) {
    EXPECT_GT(std::string(error.what()).size(), 10u);
    return true;
  }
}

TEST(DamagedText, IsReadOrRefused) {
  for (const TextFile &file : textFiles()) {
    SCOPED_TRACE(file.name);
    EXPECT_FALSE(isRefused(file, file.text));
    int refused = 0;
    for (int round = 0; round < 1000; round += kEveryCase) {
      std::mt19937 random = drawsOf(1, round);
      std::string text = damaged(file.text, random);
      refused += isRefused(file, random() % 4 ? text : damaged(text + " ", random));
    }
    EXPECT_GT(refused, 400 / kEveryCase);
  }
}

TEST(DamagedText, CutTextIsReadOrRefused) {
  for (const TextFile &file : textFiles()) {
    SCOPED_TRACE(file.name);
    for (size_t size = 0; size < file.text.size(); size += kEveryCase)
      isRefused(file, file.text.substr(0, size));
  }
}

} // namespace
} // namespace pdc
