#pragma once

#include "runtime/Program.h"

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace pdc::runtime {

class Control;
class Transport;

/// A task and the places that it reads and writes. Under one name it puts the same work into the
/// queue again and again: what changes from run to run is read there.
struct TaskRun {
  int stage;
  Phase phase;
  bool startsSums;
  std::array<const std::byte *, 4> places; ///< of slot and weight versions
  bool startsReplicaSums = false;          ///< interrupted where gradients are made
  auto operator<=>(const TaskRun &) const = default;
};

/// Tensors of as many elements that are added up, in this order: the gradients of a weight's uses.
struct AddedTensors {
  std::vector<const float *> terms;
  int64_t count = 0;
};

/// A device with memory of its own, as the one thread of a rank uses it. Kernels and copies are put
/// into a queue and run in its order, later; nothing but `finish`, `read`, `readNumbers`,
/// `sumSquares` and `secondsOf` waits for them.
class Accelerator {
public:
  /// A point in a queue, which other queues of the same process may wait for. Lives as long as the
  /// accelerator that made it; recording it again moves it.
  using Mark = void *;

  virtual ~Accelerator() = default;

  /// As its maker calls devices of this kind.
  virtual std::string name() const = 0;
  /// Zeroed memory of the device, aligned to 256 bytes, freed with the accelerator. Throws Error
  /// that names what there is when there is not enough.
  virtual std::byte *allocate(int64_t bytes) = 0;
  /// A 0 that kernels may set to 1, and the host may look at while they run; freed with the
  /// accelerator.
  virtual int *makeFlag() = 0;
  /// What kernels are put into: a cudaStream_t.
  virtual void *queue() const = 0;

  /// Runs a task that does nothing but put work into the queue, or that work again.
  virtual void run(const TaskRun &, const std::function<void()> &task) { task(); }
  /// Within a task: `action` puts work into other queues, behind what the task has put into this
  /// one so far. Again whenever what the task put there runs again.
  virtual void interrupt(const std::function<void()> &action) { action(); }

  /// Host memory for what the next `write` copies.
  virtual std::byte *stage(int64_t bytes) = 0;
  /// Copies what was staged to the device, in the queue's order.
  virtual void write(std::byte *to, const std::byte *staged, int64_t bytes) = 0;
  /// Takes the host's memory for writes of at most so many bytes, before the first message: taking
  /// memory may wait for all that the device runs, and so for a peer that waits for this rank.
  virtual void reserve(int64_t mostWritten) = 0;
  /// As `stage` and `write`, but beside the queue and to memory of the device's that is no arena:
  /// one piece for each number `place`, reserved before the first message. Null where there was no
  /// room for it.
  virtual void reserveAhead(size_t place, int64_t bytes) = 0;
  virtual std::byte *stageAhead(size_t place) = 0;
  virtual void writeAhead(size_t place) = 0;
  /// From there, in the queue's order.
  virtual void takeAhead(size_t place, std::byte *to) = 0;
  /// Returns once everything in the queue has run.
  virtual void finish() = 0;
  /// Copies to the host once everything before in the queue has run.
  virtual void read(std::byte *to, const std::byte *from, int64_t bytes) = 0;
  /// A few single numbers, for which it waits once. Null: the number is 0.
  virtual void readNumbers(std::span<const float *const> from, std::span<float> to) = 0;

  // In the queue's order, within the device's memory.
  virtual void move(std::byte *to, const std::byte *from, int64_t bytes) = 0;
  /// to += from.
  virtual void add(float *to, const float *from, int64_t count) = 0;
  virtual void divide(float *values, float by, int64_t count) = 0;
  /// 1 if all are finite numbers, else 0, until it is asked again.
  virtual const float *testFinite(std::span<const std::span<const float>> tensors) = 0;
  /// The sum of the squares of each, in f64 and in an order that depends on its size alone; waits as
  /// `read` does.
  virtual void sumSquares(std::span<const AddedTensors> tensors, std::span<double> sums) = 0;

  /// What the device takes for what `work` puts into the queue: the least seconds of a few runs,
  /// without those in which it waits for the host, and while no other rank of the process measures.
  virtual double secondsOf(const std::function<void()> &work) = 0;

  virtual Mark makeMark() = 0;
  /// The mark stands behind all that is in the queue now.
  virtual void record(Mark mark) = 0;
  /// What is put into the queue from now on runs after the mark as it is recorded now.
  virtual void await(Mark mark) = 0;
  /// Copies between two ranks' memories, beside the queue: after the marks `after`, which may be
  /// of other accelerators; then records `done`, which is one of this.
  virtual void copy(std::byte *to, const std::byte *from, int64_t bytes,
                    std::span<const Mark> after, Mark done) = 0;

  /// The same device with queues of its own, which run beside those of this one.
  virtual std::unique_ptr<Accelerator> beside() const = 0;

  /// Called again and again while `read` waits, with the seconds it has waited; may throw.
  std::function<void(double waited)> whileWaiting;
};

/// What a program needs of the kind of device it was compiled for; programs for the CPU have none.
struct DeviceSupport {
  const char *name; ///< as in --device
  /// The device for this rank: one of those that this host has, `local` counting its ranks. Throws
  /// Error where there is none.
  std::unique_ptr<Accelerator> (*open)(int local);
  /// The transport between the devices of different processes. Collective.
  std::unique_ptr<Transport> (*connect)(Accelerator &accelerator, Control &control,
                                        const Program &program);
};

} // namespace pdc::runtime
