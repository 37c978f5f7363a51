#include "compiler/plan/StageMemory.h"
#include "testsuite/plan/ExamplePlans.h"

#include <gtest/gtest.h>

#include <random>

namespace pdc {
namespace {

struct Step {
  PlanUnit unit;
  bool sends;
};

std::vector<Step> drawSteps(std::mt19937 &random) {
  std::vector<Step> steps;
  for (const PlanUnit &unit : randomGraph(2 + static_cast<int>(random() % 8), random).units)
    steps.push_back({unit, random() % 4 > 0});
  return steps;
}

StageMemory sumOf(const std::vector<Step> &steps) {
  MemorySum sum;
  for (size_t i = steps.size(); i-- > 0;)
    sum.add(steps[i].unit, steps[i].sends);
  return sum.with({});
}

/// Bytes of one microbatch once the input gradients of so many units, from the last, have run.
int64_t bytesBehind(const std::vector<Step> &steps, size_t passed) {
  int64_t bytes = 0;
  for (size_t i = 0; i < steps.size(); ++i) {
    const auto &[unit, sends] = steps[i];
    bytes += unit.stashBytes;
    if (sends && i + passed >= steps.size())
      bytes += unit.halfwayBytes - unit.inputStashBytes;
  }
  return bytes;
}

/// What a further microbatch in flight takes, and what all tasks share.
struct Bytes {
  int64_t perSlot, shared;
};

Bytes bytesOf(const StageMemory &memory, StageDepth depth, bool recompute) {
  const int64_t one = memory.total(depth, recompute);
  ++depth.slots;
  const int64_t perSlot = memory.total(depth, recompute) - one;
  return {perSlot - memory.slot, one - perSlot};
}

TEST(StageMemory, KeepsActivationsUntilTheBackwardPass) {
  std::mt19937 random(1);
  for (int i = 0; i < 100; ++i) {
    const std::vector<Step> steps = drawSteps(random);
    EXPECT_EQ(bytesOf(sumOf(steps), {}, false).perSlot, bytesBehind(steps, 0));
    EXPECT_EQ(bytesOf(sumOf(steps), {}, true).perSlot, 0);
  }
}

/// The most of all moments of the input gradients, played one unit after the other.
TEST(StageMemory, ExchangesActivationsForWhatWeightGradientsRead) {
  std::mt19937 random(2);
  int larger = 0, equal = 0;
  for (int i = 0; i < 300; ++i) {
    const std::vector<Step> steps = drawSteps(random);
    int64_t most = 0;
    for (size_t passed = 0; passed <= steps.size(); ++passed)
      most = std::max(most, bytesBehind(steps, passed));
    EXPECT_EQ(bytesOf(sumOf(steps), {.split = true}, false).perSlot, most);
    (most > bytesBehind(steps, 0) ? larger : equal) += 1;
  }
  EXPECT_GT(larger, 20);
  EXPECT_GT(equal, 20);
}

/// Of what is recomputed, only what the weight gradients read outlives the input gradients.
TEST(StageMemory, KeepsOfWhatIsRecomputedWhatWeightGradientsRead) {
  std::mt19937 random(3);
  for (int i = 0; i < 100; ++i) {
    const std::vector<Step> steps = drawSteps(random);
    const StageMemory memory = sumOf(steps);
    const Bytes split = bytesOf(memory, {.split = true}, true);
    EXPECT_EQ(split.perSlot, bytesBehind(steps, steps.size()));
    // All of a last stage's backward pass is one task.
    const Bytes last = bytesOf(memory, {.split = true, .sendsGradients = false}, true);
    EXPECT_EQ(last.perSlot, 0);
    EXPECT_EQ(last.shared - split.shared, memory.stash - memory.inputStash);
  }
}

/// Tasks of halves have less beside the slots than whole ones.
TEST(StageMemory, CountsWhatLivesInTheTasksThatThereAre) {
  std::mt19937 random(4);
  std::vector<Step> steps = drawSteps(random);
  steps.front().unit.temporaryBytes = 5000;
  for (Step &step : steps)
    step.unit.splitTemporaryBytes = 10;
  steps.back().unit.splitTemporaryBytes = 700;
  const StageMemory memory = sumOf(steps);
  EXPECT_EQ(bytesOf(memory, {}, false).shared - bytesOf(memory, {.split = true}, false).shared,
            5000 - 700);
}

} // namespace
} // namespace pdc
