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
  if (random() % 2)
    for (Step &step : steps)
      step.unit.halfwayBytes /= 4;
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
      bytes += unit.halfwayBytes - unit.freedStashBytes;
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
    int64_t left = 0;
    for (const auto &[unit, sends] : steps)
      left += unit.stashBytes + (sends ? unit.halfwayBytes - unit.inputStashBytes : 0);
    const Bytes split = bytesOf(memory, {.split = true}, true);
    EXPECT_EQ(split.perSlot, left);
    // All of the backward pass of a stage that sends nothing is one task.
    const Bytes first = bytesOf(memory, {.split = true, .sendsGradients = false}, true);
    EXPECT_EQ(first.perSlot, 0);
    EXPECT_EQ(first.shared - split.shared, memory.stash - memory.inputStash);
  }
}

/// Tasks of halves have less beside the slots than whole ones, where there are any.
TEST(StageMemory, CountsWhatLivesInTheTasksThatThereAre) {
  std::mt19937 random(4);
  std::vector<Step> steps = drawSteps(random);
  for (Step &step : steps) {
    step.unit.splitTemporaryBytes = 10;
    step.sends = true;
  }
  steps.front().unit.temporaryBytes = 5000;
  steps.back().unit.splitTemporaryBytes = 700;
  auto scratch = [&](const StageDepth &depth) { return sumOf(steps).scratch(depth, false); };
  EXPECT_EQ(scratch({}) - scratch({.split = true}), 5000 - 700);
  EXPECT_EQ(scratch({}), scratch({.split = true, .sendsGradients = false}));
  steps.front().sends = false;
  EXPECT_EQ(scratch({}), scratch({.split = true}));
}

/// What is sent lies in its outbox until the microbatch has ended.
TEST(StageMemory, KeepsWhatIsSentOnce) {
  const PlanUnit unit{.stashBytes = 100, .inputStashBytes = 70, .freedStashBytes = 70};
  MemorySum sum;
  sum.add(unit);
  const StageDepth split{.split = true};
  auto perSlot = [&](const CrossingBytes &crossing, bool recompute) {
    StageDepth two = split;
    two.slots = 2;
    const StageMemory memory = sum.with(crossing);
    return memory.total(two, recompute) - memory.total(split, recompute);
  };
  CrossingBytes crossing{.values = 70};
  crossing.addSent({"v", 0, {1}, 70, true, 0}, 1);
  EXPECT_EQ(perSlot(crossing, false), 100 + 70); // the input gradients free nothing
  EXPECT_EQ(perSlot(crossing, true), 30 + 70);
  crossing = {.values = 20};
  crossing.addSent({"w", 0, {1}, 20, true, -1}, 1);
  EXPECT_EQ(perSlot(crossing, false), 100);
  EXPECT_EQ(perSlot(crossing, true), 30);
}

} // namespace
} // namespace pdc
