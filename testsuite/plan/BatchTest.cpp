#include "testsuite/Refusal.h"
#include "tools/pdc/Batches.h"

#include <gtest/gtest.h>

namespace pdc {
namespace {

std::vector<int64_t> sizesTried(const std::vector<Batch> &batches, int workers) {
  std::vector<int64_t> sizes;
  for (const std::vector<Batch> &same : bySize(batches, workers))
    sizes.push_back(same[0].microbatchSize);
  return sizes;
}

TEST(Batch, AMicrobatchPerWorkerComesFirst) {
  const std::vector<Batch> batches = {{64, 1}, {32, 2}, {16, 4}, {8, 8}, {4, 16}, {4, 2, 8}};
  EXPECT_EQ(sizesTried(batches, 8), (std::vector<int64_t>{8, 16, 4, 32, 64}));
  EXPECT_EQ(bySize(batches, 8)[2].size(), 2u);
}

TEST(Batch, SlowerSizesLeaveOutThoseBeyond) {
  const std::vector<int64_t> planned = {8, 16, 4};
  for (int64_t beyond : {1, 2, 32, 1000})
    EXPECT_TRUE(liesBeyondSlower(beyond, 8, planned)) << beyond;
  for (int64_t near : {5, 12})
    EXPECT_FALSE(liesBeyondSlower(near, 8, planned)) << near;
  EXPECT_FALSE(liesBeyondSlower(32, 16, {8, 16}));
  EXPECT_TRUE(liesBeyondSlower(4, 16, {8, 16}));
  EXPECT_FALSE(liesBeyondSlower(4, 8, {}));
}

Model withBatch(const Dimension &batch) {
  Model model;
  model.name = "model.onnx";
  model.inputs.push_back({"x", ElementType::f32, {batch}});
  return model;
}

/// PipeDream's update has a microbatch of each replica of the first stage, whose number is open: at
/// least one worker is left for another stage.
TEST(Batch, SingleMicrobatchesOfOpenReplicas) {
  Options options;
  options.plan.schedule = "pipedream";
  options.plan.workers = 5;
  options.minibatch = 12;
  EXPECT_EQ(openBatches(withBatch({std::nullopt, "n"}), options, false),
            (std::vector<Batch>{{12, 1, 1}, {6, 1, 2}, {4, 1, 3}, {3, 1, 4}}));
  options.plan.exact = true;
  EXPECT_EQ(openBatches(withBatch({std::nullopt, "n"}), options, false),
            (std::vector<Batch>{{12, 1, 1}}));
  options.plan.exact = false;
  options.plan.stages = 2;
  options.plan.replicas = {3, 2};
  EXPECT_EQ(openBatches(withBatch({std::nullopt, "n"}), options, false),
            (std::vector<Batch>{{4, 1, 3}}));
}

/// A fixed size is never rewritten.
TEST(Batch, SingleMicrobatchesOfFixedSize) {
  Options options;
  options.plan.schedule = "pipedream";
  options.plan.workers = 4;
  const Model model = withBatch({6, ""});
  EXPECT_EQ(openBatches(model, options, false),
            (std::vector<Batch>{{6, 1, 1}, {6, 1, 2}, {6, 1, 3}}));
  options.minibatch = 12;
  EXPECT_EQ(openBatches(model, options, false), (std::vector<Batch>{{6, 1, 2}}));
  options.minibatch = 24;
  EXPECT_EQ(refusal([&] { openBatches(model, options, false); }),
            "--minibatch 24: in schedule 'pipedream' an update has one microbatch of each replica "
            "of the first stage, expected 6 samples for each of 1 to 3 replicas; --stages says "
            "others");
  options.plan.workers = 2;
  EXPECT_EQ(refusal([&] { openBatches(model, options, false); }),
            "--minibatch 24: in schedule 'pipedream' an update has one microbatch, expected 6 "
            "samples");
}

TEST(Batch, SizesThatStandForReplicasAreAllPlanned) {
  Options options;
  EXPECT_FALSE(plansBestSizes(options, true, 500));
  EXPECT_TRUE(plansBestSizes(options, true, 501));
  EXPECT_FALSE(plansBestSizes(options, false, 501));
  for (const char *model : {"pipedream-code", "pipedream-paper", "ring-max"}) {
    options.plan.costModel = model;
    EXPECT_FALSE(plansBestSizes(options, true, 501)) << model;
  }
}

} // namespace
} // namespace pdc
