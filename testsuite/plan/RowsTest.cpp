#include "compiler/plan/Files.h"
#include "testsuite/Refusal.h"
#include "testsuite/plan/ExamplePlans.h"
#include "testsuite/plan/ExampleRequest.h"

#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace pdc {
namespace {

using testing::HasSubstr;

std::string rowsRefusal(const PlanRequest &request, size_t units) {
  return refusal([&] { makePlan(chainGraph(std::vector<double>(units, 1)), request); });
}

TEST(Rows, OfAFile) {
  std::filesystem::path path = std::filesystem::path(testing::TempDir()) / "rows.txt";
  writeTextFile(path, "schedule mine\nmicrobatches 2\nstages 0 1\n"
                      "rank 0: 0F0 0F1 0B0 0B1 allreduce 0U1\n"
                      "rank 1: 1F0 1B0 1F1 1B1 allreduce 1U1\n");
  PlanRequest request = requestFor(2, path.c_str(), 2);
  EXPECT_EQ(makePlan(chainGraph({1, 1}), request).scheduleName, "mine");
  request.microbatches = 3;
  EXPECT_THAT(rowsRefusal(request, 2), HasSubstr("has 2 microbatches, expected 3"));
  writeTextFile(path, "schedule mine\nmicrobatches 2\nstages 0 1\n"
                      "rank 0: 0F0 0F1 0B0 allreduce 0U1\n"
                      "rank 1: 1F0 1B0 1F1 1B1 allreduce 1U1\n");
  EXPECT_EQ(rowsRefusal(request, 2),
            "schedule mine: phase B of stage 0 runs 1 times for 2 microbatches, expected 2\n"
            "stage 0  F0 F1 .  B0 .\n"
            "stage 1  .  F0 B0 F1 B1\n");
}

/// Turns that meet in a slot though one between them is in no row.
TEST(Rows, OfAPlanRunEveryMicrobatch) {
  nlohmann::json plan =
      nlohmann::json::parse(printPlan(makePlan(chainGraph({1, 1}), requestFor(2, "1f1b", 3))));
  plan["rows"] = {"schedule 1f1b", "microbatches 3", "stages 0 1",
                  "rank 0: 0F0 0F0>1#0 0F2 0F2>1#0 0B2<1#1 0B2 0B0<1#1 0B0 allreduce 0U2",
                  "rank 1: 1F0<0#0 1F0 1F2<0#0 1F2 1B2 1B2>0#1 1B0 1B0>0#1 allreduce 1U2"};
  EXPECT_EQ(
      refusal([&] { parsePlan(plan.dump(), "p"); }),
      "p: rows: schedule 1f1b: phase F of stage 0 runs 2 times for 3 microbatches, expected 3\n"
      "stage 0  F0 F2 .  .  B2 B0\n"
      "stage 1  .  F0 F2 B2 B0 .\n");
}

/// As many versions at every stage as it has stages, with rows and without: the file says the rule.
TEST(Rows, UnderVerticalSync) {
  for (int stages : {8, 40}) {
    PlanRequest request = requestFor(stages, "pipedream", 1);
    request.verticalSync = true;
    Plan plan = makePlan(chainGraph(std::vector<double>(stages, 1)), request);
    EXPECT_EQ(plan.schedule.ranks.empty(), stages == 40);
    EXPECT_NEAR(plan.secondsPerMinibatch, 3, 0.01);
    for (const PlanStage &stage : plan.stages) {
      EXPECT_EQ(stage.weightVersions, stages);
      EXPECT_EQ(stage.inFlight, stages - stage.id);
    }
    Plan read = parsePlan(printPlan(plan), "plan");
    EXPECT_EQ(read.schedule.weightRule, WeightRule::atEntry);
    EXPECT_EQ(read.schedule.versions, plan.schedule.versions);
  }
  PlanRequest uneven = requestFor(50, "pipedream", 1);
  uneven.verticalSync = true;
  uneven.replicas.assign(49, 1);
  uneven.replicas[3] = 2;
  EXPECT_THAT(rowsRefusal(uneven, 49),
              HasSubstr("vertical sync needs as many replicas of every stage, found 1-1-1-2-1"));
}

} // namespace
} // namespace pdc
