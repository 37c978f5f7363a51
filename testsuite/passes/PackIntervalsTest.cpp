#include "passes/PackIntervals.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace pdc::test {

/// No plan can be smaller than what lives at one moment.
static int64_t peak(const std::vector<Interval> &intervals) {
  int64_t most = 0;
  for (const Interval &at : intervals) {
    int64_t sum = 0;
    for (const Interval &other : intervals)
      if (other.begin <= at.begin && at.begin <= other.end)
        sum += aligned(other.bytes);
    most = std::max(most, sum);
  }
  return most;
}

TEST(PackIntervals, ReusesWhatIsDead) {
  // a dies before c is born; b lives through both.
  Packing packing = packIntervals({{0, 1, 100}, {0, 9, 64}, {2, 9, 100}});
  EXPECT_EQ(packing.offsets[0], packing.offsets[2]);
  EXPECT_EQ(packing.bytes, 128 + 64);
}

TEST(PackIntervals, BothEndsCount) {
  Packing packing = packIntervals({{0, 1, 64}, {1, 2, 64}});
  EXPECT_NE(packing.offsets[0], packing.offsets[1]);
}

TEST(PackIntervals, StartsWhereItIsTold) {
  Packing packing = packIntervals({{0, 1, 10}}, 100);
  EXPECT_EQ(packing.offsets[0], 128);
  EXPECT_EQ(packing.bytes, 192);
  EXPECT_EQ(packIntervals({}, 100).bytes, 128);
}

TEST(PackIntervals, NeverOverlapsAndStaysNearThePeak) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<Interval> intervals(1 + random() % 60);
    for (Interval &interval : intervals) {
      interval.begin = random() % 50;
      interval.end = interval.begin + random() % 20;
      interval.bytes = 1 + random() % 5000;
    }
    Packing packing = packIntervals(intervals);
    for (size_t i = 0; i < intervals.size(); ++i)
      for (size_t j = 0; j < i; ++j)
        if (intervals[i].meets(intervals[j])) {
          EXPECT_TRUE(packing.offsets[i] + intervals[i].bytes <= packing.offsets[j] ||
                      packing.offsets[j] + intervals[j].bytes <= packing.offsets[i]);
        }
    EXPECT_GE(packing.bytes, peak(intervals));
    EXPECT_LE(packing.bytes, peak(intervals) * 3 / 2);
  }
}

} // namespace pdc::test
