#pragma once

#include "runtime/Arena.h"
#include "runtime/Control.h"
#include "runtime/Transport.h"

#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

namespace pdc::runtime {

/// Sums what the replicas of a rank's stages bring together at an update, bucket by bucket. On the
/// CPU on a thread of its own: a bucket starts when the last backward pass has made its gradients,
/// and the rank goes on computing meanwhile.
///
///     tasks    B3: fc2 | conv2 | conv1 |         update
///     sums             | bucket 0 | bucket 1 |
///
/// Every replica adds the same floats in the same order, that of the replicas, so neither the time
/// of a bucket nor its size changes a bit. On an accelerator the thread of the tasks puts the sums
/// into a queue of their own, where the transport has one beside its messages; else they follow the
/// backward pass.
class ReplicaSums {
public:
  ReplicaSums(const Program &program, const Arena &arena, Transport &transport, Control &control,
              Seconds timeout, int64_t bucketElements);
  ~ReplicaSums();
  /// Ends the thread, whatever it waits for: before the transport goes away.
  void stop();

  /// The next backward pass makes the last gradients of a stage. `present`: the first of its
  /// replicas had a microbatch, the others none.
  void begin(int stage, int present);
  /// The first `count` of StageInfo::gradients of the stage begun last are made.
  void made(int count);
  /// All of a stage is made. Returns when every replica has the sums of the gradients and the means
  /// of the running statistics, of those present.
  void finish(int stage, int present);

private:
  /// Floats of this rank's memories, one behind the other, as messages carry them.
  struct Packed {
    std::vector<std::span<float>> parts;
    void copy(const ReplicaSums &sums, int64_t from, std::span<float> bucket, bool out) const;
  };
  struct Stage {
    const StageInfo *info = nullptr;
    int replica = 0;           ///< position in info->ranks
    std::string others;        ///< what a rank that waits for them says
    Packed values;             ///< gradients, then running statistics
    std::vector<int64_t> ends; ///< by count of gradients: their floats
    int64_t elements = 0;
    // Of the update in progress.
    bool begun = false, open = false; ///< open: begun and not all summed
    int present = 0;
    int64_t made = 0, summed = 0;
  };

  Stage &stageOf(int id);
  void add(const Program &program, const StageInfo &info);
  void findOrder(const Program &program);
  Stage *next();
  void work();
  void workUntilStopped(std::unique_lock<std::mutex> &lock);
  int64_t endOfBucket(const Stage &stage) const;
  bool endsBucket(const Stage &stage, int count) const;
  void putIntoQueue(Stage &stage, int count);
  void putIntoQueue(Stage &stage);
  void sumNext(const Stage &stage, int64_t from, int64_t to);
  void sumBucket(const Stage &stage, std::span<float> bucket);
  void meet(const Stage &stage);
  // In the queue of the sums.
  void move(float *to, const float *from, int64_t count) const;
  void add(float *to, const float *from, int64_t count) const;
  void divide(float *values, float by, int64_t count) const;

  const Arena &arena;
  const Transport::Beside beside;
  Accelerator::Mark begins = nullptr, ends = nullptr; ///< of what is in the queue beside the tasks
  Transport &transport;
  Control &control;
  const Seconds timeout;
  std::vector<Stage> stages; ///< those that have replicas
  std::vector<float> room;   ///< of the two, on the CPU
  std::span<float> bucket, inbox;
  std::vector<Message> messages;

  std::mutex mutex;
  std::condition_variable changed;
  Stage *newest = nullptr; ///< begun last
  /// Of a synchronous schedule: the stages in the order of its rows, which is proven; else stages
  /// are summed as they begin.
  std::vector<Stage *> order;
  size_t turn = 0; ///< in `order`
  std::atomic<bool> stopping = false;
  std::exception_ptr failure;
  std::thread thread; ///< on the CPU, where a stage has replicas
};

} // namespace pdc::runtime
