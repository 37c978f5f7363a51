#include "compiler/plan/Files.h"
#include "compiler/plan/MakePlan.h"
#include "testsuite/plan/ExamplePlans.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace pdc {
namespace {

using nlohmann::json;

/// Two stages and four microbatches.
Plan tracedPlan() {
  PlanRequest request;
  request.workers = 2;
  request.schedule = "1f1b";
  request.microbatches = 4;
  request.topology = Topology{{{2, {1e9, 1e-6}}}, 1 << 30, "cpu"};
  return makePlan(chainGraph({1, 2, 3, 4}), request);
}

TEST(Trace, OneBarPerRun) {
  Plan plan = tracedPlan();
  json trace = json::parse(predictTrace(plan, 1).text);
  int forward = 0, sends = 0;
  for (const json &event : trace["traceEvents"]) {
    forward += event.value("cat", "") == "forward";
    sends += event.value("cat", "") == "send";
  }
  EXPECT_EQ(forward, 8);
  EXPECT_EQ(sends, static_cast<int>(4 * plan.edges.size()));
  EXPECT_FALSE(trace.contains("otherData"));
}

/// The bars of a trace.
std::vector<json> barsOf(const PredictedTrace &trace) {
  std::vector<json> bars;
  const json whole = json::parse(trace.text);
  for (const json &event : whole["traceEvents"])
    if (event["ph"] == "X")
      bars.push_back(event);
  return bars;
}

TEST(Trace, OfManyEventsTheEarliest) {
  Plan plan = tracedPlan();
  const std::vector<json> all = barsOf(predictTrace(plan, 1));
  EXPECT_TRUE(
      std::ranges::is_sorted(all, {}, [](const json &bar) { return bar["ts"].get<double>(); }));
  const PredictedTrace few = predictTrace(plan, 1, 10);
  EXPECT_EQ(barsOf(few), std::vector<json>(all.begin(), all.begin() + 10));
  EXPECT_EQ(few.leftOut, "26 events from 18.000002 s on");
  EXPECT_EQ(json::parse(few.text)["otherData"]["left out"], few.leftOut);
  const PredictedTrace whole = predictTrace(plan, 3, static_cast<int64_t>(all.size()));
  EXPECT_EQ(barsOf(whole).size(), all.size());
  EXPECT_EQ(whole.leftOut, "2 of 3 minibatches");
}

} // namespace
} // namespace pdc
