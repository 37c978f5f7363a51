#include "testsuite/cuda/HostThreads.h"

#include "testsuite/cuda/HostStreams.h"

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <stdexcept>
#include <vector>

/// Saves the callee's registers on this stack, keeps its top in *from and goes on with `to`.
extern "C" void pdcSwitchStacks(void **from, void *to);
asm(R"(
.text
.globl pdcSwitchStacks
pdcSwitchStacks:
  push %rbp
  push %rbx
  push %r12
  push %r13
  push %r14
  push %r15
  mov %rsp, (%rdi)
  mov %rsi, %rsp
  pop %r15
  pop %r14
  pop %r13
  pop %r12
  pop %rbx
  pop %rbp
  ret
)");

namespace pdc::testing {

thread_local Index threadIndex, blockIndex, blockSize, gridSize;

namespace {

constexpr size_t kStackBytes = 1 << 16;
constexpr unsigned kWarp = 32;

enum class State { ready, atWarp, atBlock, done };

/// Counts `count` things up or down from any of them, as is drawn: nothing says in which order a
/// device runs threads between their meetings, or blocks.
class DrawnOrder {
public:
  explicit DrawnOrder(unsigned count) : count(count) {
    thread_local std::minstd_rand draw;
    first = draw() % count;
    isDown = draw() % 2;
  }
  unsigned operator[](unsigned i) const {
    return (uint64_t(first) + (isDown ? count - i : i)) % count;
  }

private:
  unsigned count, first;
  bool isDown;
};

struct Fiber {
  std::unique_ptr<std::byte[]> stack{new std::byte[kStackBytes]};
  void *top = nullptr;
  State state = State::done;
  uint64_t said = 0, heard = 0; ///< at the last meeting
};

/// The fibers of this host thread, and the block that they run.
struct Block {
  std::vector<Fiber> fibers;
  unsigned threads = 0, current = 0;
  void *scheduler = nullptr;
  const std::function<void()> *kernel = nullptr;

  void run(const std::function<void()> &body, unsigned count);
  void meet(State where, uint64_t value);
  bool release(unsigned begin, unsigned end, State where);
};
thread_local Block block;

void enter() {
  (*block.kernel)();
  Fiber &fiber = block.fibers[block.current];
  fiber.state = State::done;
  pdcSwitchStacks(&fiber.top, block.scheduler);
}

/// The first switch to a fiber pops six registers and returns into `enter`, whose frame must begin
/// 8 bytes off a multiple of 16.
void prepare(Fiber &fiber) {
  auto end = reinterpret_cast<uintptr_t>(fiber.stack.get() + kStackBytes) / 16 * 16;
  auto *top = reinterpret_cast<void **>(end) - 2;
  *top = reinterpret_cast<void *>(&enter);
  for (int i = 0; i < 6; ++i)
    *--top = nullptr;
  fiber.top = top;
  fiber.state = State::ready;
}

/// Lets threads [begin, end) go on if all that still run stand at `where`.
bool Block::release(unsigned begin, unsigned end, State where) {
  bool any = false, hasEnded = false;
  for (unsigned t = begin; t < end; ++t) {
    if (fibers[t].state != where && fibers[t].state != State::done)
      return false;
    any |= fibers[t].state == where;
    hasEnded |= fibers[t].state == State::done;
  }
  if (any && hasEnded && where == State::atWarp) {
    std::fprintf(stderr, "a warp exchanges numbers with threads that have ended\n");
    std::abort();
  }
  for (unsigned t = begin; any && t < end; ++t) {
    fibers[t].heard = fibers[t].said;
    if (fibers[t].state == where)
      fibers[t].state = State::ready;
    else
      fibers[t].heard = 0;
  }
  return any;
}

void Block::run(const std::function<void()> &body, unsigned count) {
  kernel = &body;
  threads = count;
  if (fibers.size() < count)
    fibers.resize(count);
  for (unsigned t = 0; t < count; ++t)
    prepare(fibers[t]);
  while (true) {
    // 1. Every thread to its next meeting.
    const DrawnOrder order(threads);
    for (unsigned i = 0; i < threads; ++i) {
      current = order[i];
      if (fibers[current].state == State::ready) {
        threadIndex.x = current;
        pdcSwitchStacks(&scheduler, fibers[current].top);
      }
    }
    // 2. Warps, then the block, where all have come.
    bool moved = false, running = false;
    for (unsigned warp = 0; warp < threads; warp += kWarp)
      moved |= release(warp, std::min(warp + kWarp, threads), State::atWarp);
    if (!moved)
      moved = release(0, threads, State::atBlock);
    for (unsigned t = 0; t < threads; ++t)
      running |= fibers[t].state != State::done;
    if (!running)
      return;
    if (!moved) {
      std::fprintf(stderr, "threads of a block wait for one another at different places\n");
      std::abort();
    }
  }
}

void Block::meet(State where, uint64_t value) {
  Fiber &fiber = fibers[current];
  fiber.said = value;
  fiber.state = where;
  pdcSwitchStacks(&fiber.top, scheduler);
}

} // namespace

void meetBlock() { block.meet(State::atBlock, 0); }

void exchange(const void *mine, void *theirs, size_t bytes, int mask) {
  uint64_t value = 0;
  std::memcpy(&value, mine, bytes);
  const unsigned self = block.current;
  block.meet(State::atWarp, value);
  std::memcpy(theirs, &block.fibers[self ^ static_cast<unsigned>(mask)].heard, bytes);
}

unsigned meetWarp(bool value) {
  const unsigned first = block.current / kWarp * kWarp;
  block.meet(State::atWarp, value);
  unsigned bits = 0;
  for (unsigned lane = 0; lane < kWarp && first + lane < block.threads; ++lane)
    bits |= unsigned(block.fibers[first + lane].heard != 0) << lane;
  return bits;
}

void launch(cudaStream_t stream, unsigned blocks, unsigned threads, std::function<void()> kernel) {
  if (!isHere(stream))
    throw std::runtime_error("a kernel of one device is put into a stream of another");
  enqueue(stream, [=, kernel = std::move(kernel)] {
    blockSize.x = threads;
    gridSize.x = blocks;
    const DrawnOrder order(blocks);
    for (unsigned i = 0; i < blocks; ++i) {
      blockIndex.x = order[i];
      block.run(kernel, threads);
    }
  });
}

} // namespace pdc::testing
