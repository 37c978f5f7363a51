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
  size_t replicas = 1;
  for (const StageInfo &info : program.stages)
    if (info.ranks.size() > 1) {
      add(program, info);
      replicas = std::max(replicas, info.ranks.size());
    }
  if (stages.empty())
    return;
  int64_t most = std::ranges::max(stages, {}, &Stage::elements).elements;
  size_t size = size_t(std::min(most, bucketElements));
  // One share of the bucket from each other replica.
  std::span<float> both(arena.beside(int64_t(2 * size + replicas), room), 2 * size + replicas);
  bucket = both.first(size);
  inbox = both.subspan(size);
  messages.reserve(2 * replicas);
  findOrder(program);
  if (beside.sums) {
    begins = beside.tasks->makeMark();
    ends = beside.sums->makeMark();
  }
  if (!arena.isRemote())
    thread = std::thread([this] { work(); });
}

ReplicaSums::~ReplicaSums() { stop(); }

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
  stage.made = stage.summed = 0;
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
  const auto size = int64_t(bucket.size());
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
  if (stage.summed == stage.elements || stage.made < endOfBucket(stage))
    return;
  if (beside.sums) {
    beside.tasks->record(begins);
    beside.sums->await(begins);
  }
  while (stage.summed < stage.elements && stage.made >= endOfBucket(stage)) {
    const int64_t to = endOfBucket(stage);
    sumNext(stage, stage.summed, to);
    stage.summed = to;
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
    turn = (turn + 1) % std::max<size_t>(order.size(), 1);
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
  return std::min(stage.summed + int64_t(bucket.size()), stage.elements);
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
  if (!order.empty())
    return order[turn]->open ? order[turn] : nullptr;
  auto open = std::ranges::find(stages, true, &Stage::open);
  return open == stages.end() ? nullptr : &*open;
}

void ReplicaSums::workUntilStopped(std::unique_lock<std::mutex> &lock) {
  while (true) {
    Stage *ready = nullptr;
    changed.wait(lock, [&] {
      ready = next();
      return stopping || (ready && ready->made >= endOfBucket(*ready));
    });
    if (stopping)
      return;
    Stage &stage = *ready;
    int64_t from = stage.summed, to = endOfBucket(stage);
    lock.unlock();
    sumNext(stage, from, to);
    lock.lock();
    stage.summed = to;
    if (to < stage.elements)
      continue;
    stage.open = false;
    turn = (turn + 1) % std::max<size_t>(order.size(), 1);
    changed.notify_all();
  }
}

void ReplicaSums::sumNext(const Stage &stage, int64_t from, int64_t to) {
  std::span<float> part = bucket.first(size_t(to - from));
  stage.values.copy(*this, from, part, false);
  sumBucket(stage, part);
  // Behind the gradients lie the running statistics, of which replicas take the mean.
  int64_t sums = std::clamp<int64_t>(stage.ends.back() - from, 0, to - from);
  if (sums < to - from)
    divide(part.data() + sums, float(stage.present), to - from - sums);
  stage.values.copy(*this, from, part, true);
}

/// Each replica adds one share of the bucket, then all get all shares: each float crosses twice, as
/// around a ring, and the order of the sum is always that of the replicas.
void ReplicaSums::sumBucket(const Stage &stage, std::span<float> bucket) {
  int replicas = int(stage.info->ranks.size()), self = stage.replica, present = stage.present;
  auto share = [&](int replica) {
    size_t from = bucket.size() * size_t(replica) / size_t(replicas);
    size_t to = bucket.size() * size_t(replica + 1) / size_t(replicas);
    return bucket.subspan(from, to - from);
  };
  std::span<float> own = share(self);
  auto count = int64_t(own.size());
  auto received = [&](int replica) { return inbox.data() + replica * count; };
  auto message = [&](bool send, int other, int tag, float *data, size_t count) {
    if (count > 0)
      messages.push_back({send, stage.info->ranks[size_t(other)],
                          kFirstTag + 2 * stage.info->id + tag, reinterpret_cast<std::byte *>(data),
                          int64_t(count * 4)});
  };
  // 1. Everyone's part of a share goes to who adds it.
  messages.clear();
  for (int other = 0; other < replicas; ++other) {
    if (other != self && self < present)
      message(true, other, 0, share(other).data(), share(other).size());
    if (other != self && other < present)
      message(false, other, 0, received(other), own.size());
  }
  meet(stage);
  // 2. Added in the order of the replicas.
  if (self < present)
    move(received(self), own.data(), count);
  move(own.data(), received(0), count);
  for (int replica = 1; replica < present; ++replica)
    add(own.data(), received(replica), count);
  // 3. The shares go to everyone.
  messages.clear();
  for (int other = 0; other < replicas; ++other)
    if (other != self) {
      message(true, other, 1, own.data(), own.size());
      message(false, other, 1, share(other).data(), share(other).size());
    }
  meet(stage);
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

void ReplicaSums::meet(const Stage &stage) {
  runtime::meet(transport, control, messages, timeout, stage.others, &stopping);
}

} // namespace pdc::runtime
