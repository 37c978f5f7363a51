#include "runtime/Executor.h"
#include "testsuite/runtime/Toy.h"

#include <cstdlib>
#include <gtest/gtest.h>
#include <new>
#include <thread>

static std::atomic<int64_t> allocations = 0;

void *operator new(size_t bytes) {
  ++allocations;
  if (void *memory = std::malloc(bytes ? bytes : 1))
    return memory;
  throw std::bad_alloc();
}
void operator delete(void *memory) noexcept { std::free(memory); }
void operator delete(void *memory, size_t) noexcept { std::free(memory); }

using namespace toy;

namespace {
struct NoInputs : Inputs {
  void fill(const Memory &, std::byte *, int64_t) override {}
};
} // namespace

/// Runs `steps` updates on every rank and returns the allocations of all but the first three.
static int64_t allocationsInSteps(const Shape &shape, int64_t steps,
                                  const ExecutorOptions &options) {
  Pipeline pipeline(shape);
  LocalNetwork network(shape.stages);
  LocalControlPlane plane(shape.stages);
  std::atomic<int64_t> before = 0, after = 0;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < shape.stages; ++rank)
    threads.emplace_back([&, rank] {
      const Program &program = pipeline.programs()[size_t(rank)];
      Arena arena(program);
      auto endpoint = network.endpoint(rank);
      NoInputs inputs;
      Executor executor(program, arena, *endpoint, plane.of(rank), inputs, options);
      executor.start();
      LearningRate rate(0.1, "constant", steps);
      double meeting[1] = {};
      for (int64_t step = 1; step <= steps; ++step) {
        executor.trainSynchronous(shape.microbatches, step, rate);
        if (step != 3 && step != steps)
          continue;
        plane.of(rank).sum(meeting);
        (step == 3 ? before : after) = allocations.load();
        plane.of(rank).sum(meeting);
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  return after - before;
}

TEST(Step, AllocatesNothing) {
  ExecutorOptions options;
  options.clipNorm = 1;
  options.timelineRoom = 1000;
  EXPECT_EQ(allocationsInSteps({.stages = 1, .microbatches = 4}, 20, options), 0);
  EXPECT_EQ(allocationsInSteps({.stages = 3, .microbatches = 6}, 20, options), 0);
}
