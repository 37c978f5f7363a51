#include "runtime/DeviceInputs.h"

#include "runtime/Error.h"
#include "runtime/Executor.h"
#include "runtime/cuda/CudaAccelerator.h"
#include "testsuite/cuda/HostStreams.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>

namespace pdc::runtime {

/// A stage with a large input, another of one number, and the number of its step, which are in its
/// one slot.
struct OneStageWithInputs {
  static constexpr int64_t kLarge = (int64_t(1) << 20) / 8, kBytes = 8 * kLarge + 128;
  const int ranks[1] = {0}, slots[1] = {0};
  const int64_t shape[1] = {1}, large[1] = {kLarge};
  const Region regions[1] = {{"slot", 0, kBytes, 1}};
  const StageInfo stage{0, ranks, 0, -1, slots, -1, 0, 0, {}, {}};
  const Memory memories[3] = {
      {"x", Role::input, ElementType::i64, shape, "", {0, 0}, 8},
      {"pdc.random", Role::input, ElementType::i64, shape, "", {0, 8}, 8},
      {"images", Role::input, ElementType::i64, large, "", {0, 128}, 8 * kLarge}};
  const Step step[2] = {{StepKind::run, Phase::forward, 0, 0, -1},
                        {StepKind::run, Phase::forward, 0, 1, -1}};
  Program program{};

  explicit OneStageWithInputs(bool asynchronous = false) {
    program.ranks = 1;
    program.asynchronous = asynchronous;
    program.regions = regions, program.memories = memories;
    program.stages = {&stage, 1};
    if (!asynchronous)
      program.training.step = step;
    program.arenaBytes = kBytes;
  }
};

/// Everywhere ten times the number of the microbatch among all of them.
struct PositionsTimesTen : Inputs {
  int64_t first = 0, least = 0;
  void fill(const Memory &memory, std::byte *to, int64_t microbatch) override {
    if (position(microbatch) < least)
      throw Error("too early");
    const std::vector<int64_t> values(size_t(memory.bytes / 8), 10 * position(microbatch));
    std::memcpy(to, values.data(), size_t(memory.bytes));
  }
  int64_t position(int64_t microbatch) const override { return first + microbatch; }
};

/// With the copies beside the queue as late as they may be, and as early.
struct DeviceInputsTest : ::testing::TestWithParam<bool> {
  OneStageWithInputs one;
  std::unique_ptr<Accelerator> device = cuda::support.open(0);
  Arena arena{one.program, device.get()};
  DeviceInputs next{one.program, arena};
  PositionsTimesTen inputs, others;

  DeviceInputsTest() {
    if (GetParam())
      testing::runEarlyBut(queue());
  }
  ~DeviceInputsTest() override { testing::runEarlyBut(nullptr); }
  cudaStream_t queue() const { return static_cast<cudaStream_t>(device->queue()); }
  bool put(Inputs &from, int64_t microbatch, int memory = 0) {
    return next.put(from, one.memories[memory], microbatch, arena.at({0, 0}));
  }
  int64_t found(int64_t at = 0) {
    std::vector<std::byte> copy;
    int64_t value;
    std::memcpy(&value, arena.look(arena.at({0, at}), 8, copy), 8);
    return value;
  }
};

/// The first microbatch behind a run of two, in the run after it, once; of these inputs alone. The
/// number of a step is not read ahead.
TEST_P(DeviceInputsTest, AreThoseOfTheNextRun) {
  inputs.first = others.first = 5;
  EXPECT_FALSE(put(inputs, 2));
  next.readNext(inputs, 2);
  EXPECT_FALSE(put(inputs, 0));
  EXPECT_FALSE(put(others, 2));
  EXPECT_FALSE(put(inputs, 2, 1));
  inputs.first = 7;
  EXPECT_TRUE(put(inputs, 0));
  EXPECT_FALSE(put(inputs, 1));
  EXPECT_EQ(found(), 70);
}

/// What is read ahead overwrites nothing that is still to be taken, though all of it is late.
TEST_P(DeviceInputsTest, AreReadBesideTheQueue) {
  const int64_t second = 16;
  next.readNext(inputs, 1);
  inputs.first = 1;
  ASSERT_TRUE(next.put(inputs, one.memories[0], 0, arena.at({0, second})));
  next.readNext(inputs, 1);
  inputs.first = 2;
  ASSERT_TRUE(put(inputs, 0));
  EXPECT_EQ(found(), 20);
  EXPECT_EQ(found(second), 10);
}

/// Data that cannot be read are told when their step comes.
TEST_P(DeviceInputsTest, LeaveErrorsToTheirStep) {
  next.readNext(inputs, 1);
  inputs.least = 3;
  next.readNext(inputs, 2);
  EXPECT_FALSE(put(inputs, 2));
  EXPECT_FALSE(put(inputs, 1));
}

/// What the device waits for too long is no data that cannot be read.
TEST_P(DeviceInputsTest, TellWhatFailsBesideData) {
  std::atomic<bool> ends = false;
  testing::enqueueUntilTrue(queue(), [&] { return ends.load(); });
  next.readNext(inputs, 1);
  inputs.first = 1;
  ASSERT_TRUE(put(inputs, 0));
  next.readNext(inputs, 1);
  device->whileWaiting = [](double) { throw Error("too long"); };
  EXPECT_THROW(next.readNext(inputs, 1), Error);
  ends = true;
}

/// Those of each microbatch, one behind the other: each is whole when the queue takes it, and stays
/// until then, in whatever order the copies run.
TEST_P(DeviceInputsTest, ComeForEachMicrobatch) {
  for (bool asynchronous : {false, true}) {
    const OneStageWithInputs here(asynchronous);
    const Memory &images = here.memories[2];
    std::unique_ptr<Accelerator> own = cuda::support.open(0);
    Arena there(here.program, own.get());
    DeviceInputs ahead(here.program, there);
    std::byte *kept = own->allocate(5 * images.bytes);
    for (int64_t microbatch = 0; microbatch < 5; ++microbatch) {
      ASSERT_TRUE(ahead.put(inputs, images, microbatch, there.at(images.place)));
      // Where its tasks read it.
      own->move(kept + microbatch * images.bytes, there.at(images.place), images.bytes);
    }
    for (int64_t microbatch = 0; microbatch < 5; ++microbatch) {
      std::vector<int64_t> values(size_t(images.bytes / 8));
      own->read(reinterpret_cast<std::byte *>(values.data()), kept + microbatch * images.bytes,
                images.bytes);
      EXPECT_EQ(values, std::vector<int64_t>(values.size(), 10 * microbatch));
    }
  }
}

/// Another run's, as those that are evaluated between two steps, take their place.
TEST_P(DeviceInputsTest, AreReadAgainBehindOthers) {
  const Memory &images = one.memories[2];
  const int64_t at = images.place.offset;
  others.first = 100;
  next.readNext(inputs, 2);
  ASSERT_TRUE(next.put(others, images, 0, arena.at(images.place)));
  EXPECT_EQ(found(at), 1000);
  inputs.first = 2;
  ASSERT_TRUE(next.put(inputs, images, 0, arena.at(images.place)));
  EXPECT_EQ(found(at), 20);
  EXPECT_TRUE(put(inputs, 0));
  EXPECT_EQ(found(), 20);
}

/// A copy of microseconds has nothing to gain, and data that cannot be read are told at once.
TEST_P(DeviceInputsTest, AreLargeOrReadAhead) {
  EXPECT_FALSE(put(inputs, 0));
  inputs.least = 1;
  EXPECT_THROW(next.put(inputs, one.memories[2], 0, arena.at(one.memories[2].place)), Error);
  EXPECT_TRUE(next.put(inputs, one.memories[2], 1, arena.at(one.memories[2].place)));
  EXPECT_EQ(found(one.memories[2].place.offset), 10);
}

/// All memory is taken before the first message.
TEST_P(DeviceInputsTest, TakeNoMemoryWhileMessagesAreUnderWay) {
  arena.populate();
  testing::countMessages(1);
  void *memory = nullptr;
  EXPECT_NE(cudaMalloc(&memory, 1), cudaSuccess);
  EXPECT_NE(cudaHostAlloc(&memory, 1, 0), cudaSuccess);
  next.readNext(inputs, 1);
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

INSTANTIATE_TEST_SUITE_P(LateAndEarly, DeviceInputsTest, ::testing::Bool());

} // namespace pdc::runtime
