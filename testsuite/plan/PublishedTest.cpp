#include "compiler/plan/Files.h"
#include "compiler/plan/MakePlan.h"
#include "compiler/plan/Profile.h"

#include <gtest/gtest.h>

namespace pdc {
namespace {

/// What PipeDream's released optimizer answers (shared/references/pipedream.md): milliseconds of
/// the pipeline and of data parallelism, replicas per stage where they are the only best ones.
struct Published {
  const char *model;
  std::vector<int> workers;
  std::vector<double> bandwidths;
  double pipeline, dataParallel; ///< ms, as published; 0: not told
  std::vector<int> replicas;
  const char *costModel = "pipedream-code";
};

class PublishedProfiles : public testing::TestWithParam<Published> {};

TEST_P(PublishedProfiles, GiveTheirAnswers) {
  const Published &published = GetParam();
  std::filesystem::path path = std::filesystem::path(PDC_SOURCE_DIR) / "../shared/data/profiles" /
                               (std::string(published.model) + ".txt");
  if (!std::filesystem::exists(path))
    GTEST_SKIP() << path << " is not there";
  Profile profile = readProfile(path);
  PlanRequest request;
  request.topology.emplace();
  for (size_t level = 0; level < published.workers.size(); ++level)
    request.topology->levels.push_back(
        {published.workers[level], {published.bandwidths[level], 0}});
  request.workers = request.topology->workers();
  request.costModel = published.costModel;
  Plan plan = makePlan(profile.graph, request);
  EXPECT_NEAR(plan.secondsPerMinibatch * 1000, published.pipeline, 0.00501);
  if (published.dataParallel > 0) {
    EXPECT_NEAR(plan.dataParallelSecondsPerMinibatch * 1000, published.dataParallel, 0.00501);
  }
  std::vector<int> replicas;
  for (const PlanStage &stage : plan.stages)
    replicas.push_back(stage.replicas);
  if (!published.replicas.empty()) {
    EXPECT_EQ(replicas, published.replicas);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Answers, PublishedProfiles,
    testing::Values(Published{"alexnet", {4}, {1e9}, 34.22, 204.63, {3, 1}},
                    Published{"gnmt", {4}, {1e9}, 25.87, 603.65, {1, 1, 1, 1}},
                    Published{"resnet18", {4}, {1e9}, 100.00, 100.00, {4}},
                    Published{"vgg16", {4}, {1e9}, 205.52, 583.21, {3, 1}},
                    Published{"vgg16", {4, 4}, {8e9, 1.25e9}, 67.24, 138.02, {9, 3, 1, 1, 1, 1}},
                    Published{"vgg16", {8, 2}, {4294967296, 2147483648}, 78.39, 102.43, {14, 2}},
                    Published{"vgg16", {8}, {8e9}, 90.30, 114.33, {7, 1}},
                    Published{"vgg16", {16}, {1.8e9}, 52.30, 114.09, {15, 1}},
                    Published{"vgg16", {16}, {5e9}, 42.34, 0, {15, 1}, "pipedream-paper"},
                    Published{"vgg16", {16}, {5e9}, 42.03, 42.03, {16}, "ring-max"},
                    Published{"vgg16", {4, 4}, {8e9, 1.25e9}, 62.78, 0, {}, "pipedream-paper"},
                    Published{"vgg16", {4, 4}, {8e9, 1.25e9}, 55.20, 0, {}, "ring-max"},
                    Published{"gnmt", {8, 2}, {25e9, 3.125e9}, 7.02, 0, {}, "pipedream-paper"}));

} // namespace
} // namespace pdc
