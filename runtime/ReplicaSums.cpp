#include "runtime/ReplicaSums.h"

#include "runtime/Error.h"
#include "runtime/Waiting.h"

#include <algorithm>

namespace pdc::runtime {

/// Above the tags of tensors that cross stages.
constexpr int kFirstTag = 1 << 20;

void Run::gradientsMade(int count) const {
  if (sums)
    sums->made(count);
}

/// Moves the floats from `from` on between the parts and a bucket.
void ReplicaSums::Packed::copy(const ReplicaSums &sums, int64_t from, std::span<float> to,
                               bool out) const {
  for (std::span<float> part : parts) {
    int64_t size = int64_t(part.size()), count = int64_t(to.size());
    if (from < size && count > 0) {
      count = std::min(count, size - from);
      if (out)
        sums.move(part.data() + from, to.data(), count);
      else
        sums.move(to.data(), part.data() + from, count);
      to = to.subspan(size_t(count));
    }
    from = std::max<int64_t>(from - size, 0);
  }
}

ReplicaSums::ReplicaSums(const Program &program, const Arena &arena, Transport &transport,
                         Control &control, Seconds timeout, int64_t bucketElements)
    : arena(arena), beside(transport.beside()),
      transport(beside.transport ? *beside.transport : transport), control(control),
      timeout(timeout) {
  for (const StageInfo &info : program.stages)
    if (info.ranks.size() > 1)
      add(program, info);
  if (stages.empty())
    return;
  makeRoom(bucketElements);
  findOrder(program);
  if (beside.sums) {
    begins = beside.tasks->makeMark();
    ends = beside.sums->makeMark();
  }
  if (!arena.isRemote())
    thread = std::thread([this] { work(); });
}

ReplicaSums::~ReplicaSums() { stop(); }

/// For a bucket on its way out and one on its way back where a thread moves them.
void ReplicaSums::makeRoom(int64_t bucketElements) {
  size_t most = 0, replicas = 0;
  bucketElements *= arena.isRemote() ? kRemoteBuckets : 1;
  for (const Stage &stage : stages) {
    most = std::max(most, size_t(stage.elements));
    replicas = std::max(replicas, stage.info->ranks.size());
  }
  const size_t half = std::max<size_t>(1, size_t(bucketElements) / 2);
  hasSecond = !arena.isRemote() && most > half;
  bucketSize = hasSecond ? std::min((most + 1) / 2, half) : std::min(most, size_t(bucketElements));
  const size_t each = 2 * bucketSize + replicas, count = hasSecond ? 2 : 1;
  const std::span<float> all(arena.beside(int64_t(each * count), room), each * count);
  for (size_t i = 0; i < count; ++i) {
    const std::span<float> both = all.subspan(i * each, each);
    buckets[i].room = both.first(bucketSize);
    buckets[i].inbox = both.subspan(bucketSize);
    buckets[i].messages.reserve(2 * replicas);
  }
}

void ReplicaSums::stop() {
  {
    std::lock_guard lock(mutex);
    stopping = true;
  }
  changed.notify_all();
  if (thread.joinable())
    thread.join();
}

void ReplicaSums::add(const Program &program, const StageInfo &info) {
  Stage &stage = stages.emplace_back();
  stage.info = &info;
  stage.replica = int(std::ranges::find(info.ranks, program.rank) - info.ranks.begin());
  stage.others = ", a replica of stage " + std::to_string(info.id);
  stage.ends = {0};
  auto append = [&](int index) {
    const Memory &memory = program.memories[size_t(index)];
    auto *values = reinterpret_cast<float *>(arena.at(memory.place));
    stage.values.parts.push_back({values, size_t(memory.bytes / 4)});
    stage.elements += memory.bytes / 4;
  };
  for (int gradient : info.gradients) {
    append(gradient);
    stage.ends.push_back(stage.elements);
  }
  for (int state : info.states)
    append(state);
}

ReplicaSums::Stage &ReplicaSums::stageOf(int id) {
  return *std::ranges::find(stages, id, [](const Stage &stage) { return stage.info->id; });
}

// The rank's own thread.

/// Rows say the same order on all replicas, whatever microbatches they have.
void ReplicaSums::findOrder(const Program &program) {
  if (program.asynchronous)
    return;
  for (const Step &row : program.training.step)
    if (row.kind == StepKind::reduceGradients)
      order.push_back(&stageOf(row.stage));
}

void ReplicaSums::begin(int id, int present) {
  std::lock_guard lock(mutex);
  Stage &stage = stageOf(id);
  stage.begun = stage.open = true;
  stage.present = present;
  stage.made = stage.taken = 0;
  stage.allTaken = false;
  newest = &stage;
}

void ReplicaSums::made(int count) {
  if (arena.isRemote()) {
    if (beside.sums && endsBucket(*newest, count))
      arena.interrupt([this, stage = newest, count] { putIntoQueue(*stage, count); });
    return;
  }
  {
    std::lock_guard lock(mutex);
    newest->made = std::max(newest->made, newest->ends[size_t(count)]);
  }
  changed.notify_all();
}

/// Whether a bucket is full once `count` gradients are made, which was not so before the last one.
bool ReplicaSums::endsBucket(const Stage &stage, int count) const {
  const auto size = int64_t(bucketSize);
  const int64_t end = stage.ends[size_t(count)];
  return count > 0 && (end == stage.elements || end / size > stage.ends[size_t(count) - 1] / size);
}

/// While the backward pass of the stage begun last runs, unless the sums of another are to come
/// first.
void ReplicaSums::putIntoQueue(Stage &stage, int count) {
  stage.made = std::max(stage.made, stage.ends[size_t(count)]);
  if (&stage == newest && next() == newest)
    putIntoQueue(stage);
}

/// The buckets that are made, behind what the tasks' queue holds now.
void ReplicaSums::putIntoQueue(Stage &stage) {
  if (stage.allTaken || stage.made < endOfBucket(stage))
    return;
  if (beside.sums) {
    beside.tasks->record(begins);
    beside.sums->await(begins);
  }
  while (!stage.allTaken && stage.made >= endOfBucket(stage)) {
    Bucket &bucket = take(stage);
    sendShares(bucket);
    addShare(bucket);
    takeSums(bucket);
  }
}

void ReplicaSums::finish(int id, int present) {
  Stage &stage = stageOf(id);
  if (!stage.begun)
    begin(id, present);
  if (arena.isRemote()) {
    stage.made = stage.elements;
    putIntoQueue(stage);
    if (beside.sums) {
      beside.sums->record(ends);
      beside.tasks->await(ends);
    }
    stage.begun = stage.open = false;
    return;
  }
  std::unique_lock lock(mutex);
  stage.made = stage.elements;
  changed.notify_all();
  changed.wait(lock, [&] { return failure || !stage.open; });
  if (failure)
    std::rethrow_exception(failure);
  stage.begun = false;
}

int64_t ReplicaSums::endOfBucket(const Stage &stage) const {
  return std::min(stage.taken + int64_t(bucketSize), stage.elements);
}

// The thread of the sums.

void ReplicaSums::work() {
  std::unique_lock lock(mutex);
  try {
    workUntilStopped(lock);
  } catch (...) {
    if (!lock.owns_lock())
      lock.lock();
    failure = std::current_exception();
    changed.notify_all();
  }
}

/// The stage whose turn it is, once it has begun.
ReplicaSums::Stage *ReplicaSums::next() {
  auto waits = [](const Stage &stage) { return stage.open && !stage.allTaken; };
  if (!order.empty())
    return waits(*order[turn]) ? order[turn] : nullptr;
  auto open = std::ranges::find_if(stages, waits);
  return open == stages.end() ? nullptr : &*open;
}

/// The stage whose next bucket is made and has room.
ReplicaSums::Stage *ReplicaSums::ready(const Bucket *comingBack) {
  Stage *stage = next();
  const bool isMade = stage && stage->made >= endOfBucket(*stage);
  return isMade && (hasSecond || !comingBack) ? stage : nullptr;
}

ReplicaSums::Bucket &ReplicaSums::take(Stage &stage) {
  Bucket &bucket = buckets[turnOfBucket];
  turnOfBucket = hasSecond ? 1 - turnOfBucket : 0;
  bucket.stage = &stage;
  bucket.from = stage.taken;
  bucket.to = stage.taken = endOfBucket(stage);
  stage.allTaken = stage.taken == stage.elements;
  if (stage.allTaken)
    turn = (turn + 1) % std::max<size_t>(order.size(), 1);
  return bucket;
}

/// A bucket goes out before the one ahead of it is back, and is added behind that.
void ReplicaSums::workUntilStopped(std::unique_lock<std::mutex> &lock) {
  Bucket *comingBack = nullptr;
  while (true) {
    changed.wait(lock, [&] { return stopping || comingBack || ready(comingBack); });
    if (stopping)
      return;
    Stage *stage = ready(comingBack);
    Bucket *goingOut = stage ? &take(*stage) : nullptr;
    lock.unlock();
    if (goingOut)
      sendShares(*goingOut);
    if (comingBack) {
      takeSums(*comingBack);
      close(*comingBack);
    }
    if (goingOut)
      addShare(*goingOut);
    comingBack = goingOut;
    lock.lock();
  }
}

void ReplicaSums::close(const Bucket &bucket) {
  std::lock_guard lock(mutex);
  if (bucket.to < bucket.stage->elements)
    return;
  bucket.stage->open = false;
  changed.notify_all();
}

// A bucket's way: each replica adds one share of it, then all get all shares: each float crosses
// twice, as around a ring, and the order of the sum is always that of the replicas.

std::span<float> ReplicaSums::Bucket::share(int replica) const {
  const size_t size = size_t(to - from), replicas = stage->info->ranks.size();
  const size_t begin = size * size_t(replica) / replicas;
  return room.subspan(begin, size * size_t(replica + 1) / replicas - begin);
}

void ReplicaSums::addMessage(Bucket &bucket, bool send, int replica, int tag, float *data,
                             size_t count) const {
  const StageInfo &info = *bucket.stage->info;
  if (count > 0)
    bucket.messages.push_back({send, info.ranks[size_t(replica)], kFirstTag + 2 * info.id + tag,
                               reinterpret_cast<std::byte *>(data), int64_t(count * 4)});
}

/// Everyone's part of a share goes to who adds it.
void ReplicaSums::sendShares(Bucket &bucket) {
  const Stage &stage = *bucket.stage;
  const int replicas = int(stage.info->ranks.size()), self = stage.replica;
  const size_t count = bucket.share(self).size();
  stage.values.copy(*this, bucket.from, bucket.floats(), false);
  bucket.messages.clear();
  for (int other = 0; other < replicas; ++other) {
    const std::span<float> theirs = bucket.share(other);
    if (other != self && self < stage.present)
      addMessage(bucket, true, other, 0, theirs.data(), theirs.size());
    if (other != self && other < stage.present)
      addMessage(bucket, false, other, 0, bucket.inbox.data() + size_t(other) * count, count);
  }
  post(transport, bucket.messages);
}

/// In the order of the replicas; the sums go to everyone.
void ReplicaSums::addShare(Bucket &bucket) {
  await(bucket);
  const Stage &stage = *bucket.stage;
  const int self = stage.replica;
  const std::span<float> own = bucket.share(self);
  const auto count = int64_t(own.size());
  auto received = [&](int replica) { return bucket.inbox.data() + replica * count; };
  if (self < stage.present)
    move(received(self), own.data(), count);
  move(own.data(), received(0), count);
  for (int replica = 1; replica < stage.present; ++replica)
    add(own.data(), received(replica), count);
  bucket.messages.clear();
  for (int other = 0; other < int(stage.info->ranks.size()); ++other)
    if (other != self) {
      const std::span<float> theirs = bucket.share(other);
      addMessage(bucket, true, other, 1, own.data(), own.size());
      addMessage(bucket, false, other, 1, theirs.data(), theirs.size());
    }
  post(transport, bucket.messages);
}

/// Behind the gradients lie the running statistics, of which replicas take the mean.
void ReplicaSums::takeSums(Bucket &bucket) {
  await(bucket);
  const Stage &stage = *bucket.stage;
  const std::span<float> floats = bucket.floats();
  const auto count = int64_t(floats.size());
  const int64_t sums = std::clamp<int64_t>(stage.ends.back() - bucket.from, 0, count);
  if (sums < count)
    divide(floats.data() + sums, float(stage.present), count - sums);
  stage.values.copy(*this, bucket.from, floats, true);
}

void ReplicaSums::move(float *to, const float *from, int64_t count) const {
  auto *there = reinterpret_cast<std::byte *>(to);
  const auto *here = reinterpret_cast<const std::byte *>(from);
  if (beside.sums)
    beside.sums->move(there, here, count * int64_t(sizeof(float)));
  else
    arena.move(there, here, count * int64_t(sizeof(float)));
}

void ReplicaSums::add(float *to, const float *from, int64_t count) const {
  beside.sums ? beside.sums->add(to, from, count) : arena.add(to, from, count);
}

void ReplicaSums::divide(float *values, float by, int64_t count) const {
  beside.sums ? beside.sums->divide(values, by, count) : arena.divide(values, by, count);
}

void ReplicaSums::await(const Bucket &bucket) {
  runtime::await(transport, control, bucket.messages, timeout, bucket.stage->others, &stopping);
}

} // namespace pdc::runtime
