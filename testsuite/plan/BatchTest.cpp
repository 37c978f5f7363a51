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
  SizeRange sizes;
  EXPECT_TRUE(sizes.holds(1) && sizes.holds(1'000'000));
  EXPECT_TRUE(sizes.leaveOutBeyond(16, 8));
  EXPECT_TRUE(sizes.holds(16));
  EXPECT_FALSE(sizes.holds(32));
  EXPECT_TRUE(sizes.holds(1));
  EXPECT_TRUE(sizes.leaveOutBeyond(4, 8));
  EXPECT_FALSE(sizes.holds(2));
  // What is farther was out already.
  EXPECT_FALSE(sizes.leaveOutBeyond(2, 8));
  EXPECT_FALSE(sizes.leaveOutBeyond(32, 8));
  EXPECT_TRUE(sizes.holds(4));
}

TEST(Batch, SizesThatStandForReplicasAreAllPlanned) {
  Options options;
  EXPECT_FALSE(slowerSizesTell(options, 500));
  EXPECT_TRUE(slowerSizesTell(options, 501));
  for (const char *model : {"pipedream-code", "pipedream-paper", "ring-max"}) {
    options.plan.costModel = model;
    EXPECT_FALSE(slowerSizesTell(options, 501)) << model;
  }
}

} // namespace
} // namespace pdc
