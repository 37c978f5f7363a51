#include "runtime/NextInputs.h"

#include "runtime/Error.h"
#include "runtime/Executor.h"
#include "runtime/cuda/CudaAccelerator.h"
#include "testsuite/cuda/HostStreams.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>

namespace pdc::runtime {

/// A stage with an input of one number, and the number of its step, which are in its one slot.
struct OneStageWithInput {
  const int ranks[1] = {0}, slots[1] = {0};
  const int64_t shape[1] = {1};
  const Region regions[1] = {{"slot", 0, 64, 1}};
  const StageInfo stage{0, ranks, 0, -1, slots, -1, 0, 0, {}, {}};
  const Memory memories[2] = {{"x", Role::input, ElementType::i64, shape, "", {0, 0}, 8},
                              {"pdc.random", Role::input, ElementType::i64, shape, "", {0, 8}, 8}};
  const Step step[2] = {{StepKind::run, Phase::forward, 0, 0, -1},
                        {StepKind::run, Phase::forward, 0, 1, -1}};
  Program program{};

  OneStageWithInput() {
    program.ranks = 1;
    program.regions = regions, program.memories = memories;
    program.stages = {&stage, 1};
    program.training.step = step;
    program.arenaBytes = 64;
  }
};

/// Ten times the number of the microbatch among all of them.
struct PositionsTimesTen : Inputs {
  int64_t first = 0, least = 0;
  void fill(const Memory &, std::byte *to, int64_t microbatch) override {
    if (position(microbatch) < least)
      throw Error("too early");
    const int64_t value = 10 * position(microbatch);
    std::memcpy(to, &value, sizeof value);
  }
  int64_t position(int64_t microbatch) const override { return first + microbatch; }
};

/// With the copies beside the queue as late as they may be, and as early.
struct NextInputsTest : ::testing::TestWithParam<bool> {
  OneStageWithInput one;
  std::unique_ptr<Accelerator> device = cuda::support.open(0);
  Arena arena{one.program, device.get()};
  NextInputs next{one.program, arena};
  PositionsTimesTen inputs, others;

  NextInputsTest() {
    if (GetParam())
      testing::runEarlyBut(queue());
  }
  ~NextInputsTest() override { testing::runEarlyBut(nullptr); }
  cudaStream_t queue() const { return static_cast<cudaStream_t>(device->queue()); }
  bool put(Inputs &from, int64_t microbatch, int memory = 0) {
    return next.put(from, one.memories[memory], microbatch, arena.at({0, 0}));
  }
  int64_t found() {
    std::vector<std::byte> copy;
    int64_t value;
    std::memcpy(&value, arena.look(arena.at({0, 0}), 8, copy), 8);
    return value;
  }
};

/// The first microbatch behind a run of two, in the run after it, once; of these inputs alone. The
/// number of a step is not read ahead.
TEST_P(NextInputsTest, AreThoseOfTheNextRun) {
  inputs.first = others.first = 5;
  EXPECT_FALSE(put(inputs, 2));
  next.read(inputs, 2);
  EXPECT_FALSE(put(inputs, 0));
  EXPECT_FALSE(put(others, 2));
  EXPECT_FALSE(put(inputs, 2, 1));
  inputs.first = 7;
  EXPECT_TRUE(put(inputs, 0));
  EXPECT_FALSE(put(inputs, 1));
  EXPECT_EQ(found(), 70);
}

/// What is read ahead overwrites nothing that is still to be taken, though all of it is late.
TEST_P(NextInputsTest, AreReadBesideTheQueue) {
  const int64_t second = 16;
  next.read(inputs, 1);
  inputs.first = 1;
  ASSERT_TRUE(next.put(inputs, one.memories[0], 0, arena.at({0, second})));
  next.read(inputs, 1);
  inputs.first = 2;
  ASSERT_TRUE(put(inputs, 0));
  EXPECT_EQ(found(), 20);
  std::vector<std::byte> copy;
  int64_t value;
  std::memcpy(&value, arena.look(arena.at({0, second}), 8, copy), 8);
  EXPECT_EQ(value, 10);
}

/// Data that cannot be read are told when their step comes.
TEST_P(NextInputsTest, LeaveErrorsToTheirStep) {
  next.read(inputs, 1);
  inputs.least = 3;
  next.read(inputs, 2);
  EXPECT_FALSE(put(inputs, 2));
  EXPECT_FALSE(put(inputs, 1));
}

/// What the device waits for too long is no data that cannot be read.
TEST_P(NextInputsTest, TellWhatFailsBesideData) {
  std::atomic<bool> ends = false;
  testing::enqueueUntilTrue(queue(), [&] { return ends.load(); });
  next.read(inputs, 1);
  inputs.first = 1;
  ASSERT_TRUE(put(inputs, 0));
  next.read(inputs, 1);
  device->whileWaiting = [](double) { throw Error("too long"); };
  EXPECT_THROW(next.read(inputs, 1), Error);
  ends = true;
}

/// All memory is taken before the first message.
TEST_P(NextInputsTest, TakeNoMemoryWhileMessagesAreUnderWay) {
  arena.populate();
  testing::countMessages(1);
  void *memory = nullptr;
  EXPECT_NE(cudaMalloc(&memory, 1), cudaSuccess);
  EXPECT_NE(cudaHostAlloc(&memory, 1, 0), cudaSuccess);
  next.read(inputs, 1);
  inputs.first = 1;
  EXPECT_TRUE(put(inputs, 0));
  for (int64_t value = 0; value < 100; ++value)
    arena.put(arena.at({0, 0}), 8, [&](std::byte *to) { std::memcpy(to, &value, 8); });
  EXPECT_EQ(found(), 99);
  testing::countMessages(-1);
}

/// Copies between ranks that are threads go from device to device.
TEST(PeerAccess, IsEnabledOnce) {
  setenv("HOST_CUDA_DEVICES", "2", 1);
  std::unique_ptr<Accelerator> first = cuda::support.open(0), second = cuda::support.open(1);
  std::byte *to = second->allocate(64);
  const Accelerator::Mark done = second->makeMark();
  cudaSetDevice(0);
  std::byte *from = first->allocate(64);
  cudaSetDevice(1);
  for (int64_t at : {0, 0, 32})
    second->copy(to + at, from + at, 32, {}, done);
  EXPECT_EQ(cudaDeviceEnablePeerAccess(0, 0), cudaErrorPeerAccessAlreadyEnabled);
  cudaSetDevice(0);
  EXPECT_EQ(cudaDeviceEnablePeerAccess(1, 0), cudaSuccess);
  second.reset();
  first.reset();
  unsetenv("HOST_CUDA_DEVICES");
}

INSTANTIATE_TEST_SUITE_P(LateAndEarly, NextInputsTest, ::testing::Bool());

} // namespace pdc::runtime
