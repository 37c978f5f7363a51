#pragma once

#include "runtime/Accelerator.h"
#include "runtime/Program.h"

#include <array>
#include <cstddef>
#include <deque>
#include <vector>

namespace pdc::runtime {

/// The one allocation of a program: zeroed, addressed by the compiler's places. It lies in the
/// accelerator's memory where there is one, so the host reaches it only through this class.
class Arena {
public:
  explicit Arena(const Program &program, Accelerator *accelerator = nullptr);
  ~Arena();
  Arena(const Arena &) = delete;
  Arena &operator=(const Arena &) = delete;

  std::byte *region(int index, int64_t copy = 0) const {
    const Region &region = program.regions[index];
    return base + region.offset + copy * region.stride;
  }
  std::byte *at(Place place, int64_t copy = 0) const {
    return region(place.region, copy) + place.offset;
  }
  int64_t bytes() const { return program.arenaBytes; }
  /// Takes all of it now, and what a device's inputs are written through: a step must not find that
  /// there is no memory. After the weights are loaded, whose files take memory meanwhile.
  void populate() const;
  /// Whether reading the arena waits until a device has finished its work.
  bool isRemote() const { return accelerator; }
  /// Null on the CPU.
  void *queue() const { return accelerator ? accelerator->queue() : nullptr; }

  /// Runs a task, on a device by what it recorded of an earlier run of that name.
  template <class Task> void run(const TaskRun &name, const Task &task) const {
    if (accelerator)
      accelerator->run(name, std::cref(task));
    else
      task();
  }

  /// Within a task on a device: `action` puts work beside it.
  void interrupt(const std::function<void()> &action) const { accelerator->interrupt(action); }

  /// Lets `make(std::byte *)` make all `bytes` that are to lie at `to`.
  template <class Make> void put(std::byte *to, int64_t bytes, Make make) const {
    if (!accelerator)
      return make(to);
    std::byte *staged = accelerator->stage(bytes);
    make(staged);
    accelerator->write(to, staged, bytes);
  }
  /// As `put`, to a place beside the arena and while what is in the queue still runs; false where
  /// there is no room, or `make` says false. `takeAhead` brings it into the arena.
  template <class Make> bool putAhead(size_t place, Make make) const {
    std::byte *staged = accelerator->stageAhead(place);
    if (!staged || !make(staged))
      return false;
    accelerator->writeAhead(place);
    return true;
  }
  void reserveAhead(size_t place, int64_t bytes) const { accelerator->reserveAhead(place, bytes); }
  void takeAhead(size_t place, std::byte *to) const { accelerator->takeAhead(place, to); }
  /// What lies at `from`, for the host to read: there or in `copy`.
  const std::byte *look(const std::byte *from, int64_t bytes, std::vector<std::byte> &copy) const;
  /// Copies within the arena, in the order of what is computed.
  void move(std::byte *to, const std::byte *from, int64_t bytes) const;
  /// to += from, in the order of what is computed.
  void add(float *to, const float *from, int64_t count) const;
  void divide(float *values, float by, int64_t count) const;
  /// 1 if all are finite, else 0, until it is asked again; in the order of what is computed.
  const float *testFinite(std::span<const std::span<const float>> tensors) const;
  /// The sum of the squares of each, in an order that depends on its size alone. Waits for what is
  /// computed.
  void sumSquares(std::span<const AddedTensors> tensors, std::span<double> sums) const;
  /// Floats beside the arena, of the same device: those of `here` on the CPU.
  float *beside(int64_t count, std::vector<float> &here) const;
  /// Waits for what is computed. Null: the number is 0.
  void load(std::span<const float *const> from, std::span<float> to) const;
  template <size_t Count>
  std::array<float, Count> load(const std::array<const float *, Count> &from) const {
    std::array<float, Count> numbers;
    load(from, numbers);
    return numbers;
  }
  void store(float *to, float value) const;
  /// A 0 that kernels may set to 1, and the host may look at while they run.
  int *makeFlag() const;
  /// Returns once a device has done what it was given.
  void finish() const;

private:
  const Program &program;
  Accelerator *const accelerator;
  std::byte *base = nullptr;
  mutable float tested = 0;      ///< what testFinite points to on the CPU
  mutable std::deque<int> flags; ///< on the CPU
};

/// Refuses a program that another version of the compiler wrote, or whose tables point outside
/// their tables or its arena.
void check(const Program &program);

int64_t elementBytes(ElementType type);

} // namespace pdc::runtime
