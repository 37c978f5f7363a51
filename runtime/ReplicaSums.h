#pragma once

#include "runtime/Arena.h"
#include "runtime/Control.h"
#include "runtime/Transport.h"

#include <array>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

namespace pdc::runtime {

/// Sums what the replicas of a rank's stages bring together at an update, bucket by bucket. On the
/// CPU on a thread of its own: a bucket starts when the last backward pass has made its gradients,
/// and the rank goes on computing meanwhile. While the sums of a bucket go back to all replicas,
/// the next is packed and goes out, where it is made by then: one that is made while the thread
/// waits for sums goes out behind them.
///
///     tasks    B3: fc2 | conv2 | conv1 |             update
///     sums             | 0 out | 0 back |
///                              | 1 out | 1 back |
///
/// Every replica adds the same floats in the same order, that of the replicas, so neither the time
/// of a bucket nor its size changes a bit. On an accelerator the thread of the tasks puts the sums
/// into a queue of their own, where the transport has one beside its messages; else they follow the
/// backward pass.
class ReplicaSums {
public:
  /// Times so many floats are summed at once on an accelerator, where each bucket is some calls of
  /// a library.
  static constexpr int64_t kRemoteBuckets = 8;

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
    int64_t made = 0, taken = 0; ///< taken into buckets
    bool allTaken = false;
  };
  /// Some floats of a stage on their way to a sum.
  struct Bucket {
    std::span<float> room, inbox; ///< inbox: a share from each replica
    std::vector<Message> messages;
    Stage *stage = nullptr;
    int64_t from = 0, to = 0; ///< of Stage::values

    std::span<float> floats() const { return room.first(size_t(to - from)); }
    std::span<float> share(int replica) const;
  };

  Stage &stageOf(int id);
  void add(const Program &program, const StageInfo &info);
  void findOrder(const Program &program);
  Stage *next();
  void work();
  void workUntilStopped(std::unique_lock<std::mutex> &lock);
  Stage *ready(const Bucket *comingBack);
  Bucket &take(Stage &stage);
  void makeRoom(int64_t bucketElements);
  int64_t endOfBucket(const Stage &stage) const;
  bool endsBucket(const Stage &stage, int count) const;
  void putIntoQueue(Stage &stage, int count);
  void putIntoQueue(Stage &stage);
  void sendShares(Bucket &bucket);
  void addShare(Bucket &bucket);
  void takeSums(Bucket &bucket);
  void close(const Bucket &bucket);
  void addMessage(Bucket &bucket, bool send, int replica, int tag, float *data, size_t count) const;
  void await(const Bucket &bucket);
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
  std::vector<float> room;   ///< of the buckets, on the CPU
  std::array<Bucket, 2> buckets;
  bool hasSecond = false; ///< bucket
  size_t bucketSize = 0;  ///< floats
  size_t turnOfBucket = 0;

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
