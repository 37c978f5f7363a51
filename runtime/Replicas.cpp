#include "runtime/Executor.h"

#include "runtime/Error.h"

#include <algorithm>

/// What the replicas of a stage bring together before each update.
namespace pdc::runtime {

constexpr int64_t kBucketElements = int64_t(1) << 20;
/// Above the tags of tensors that cross stages.
constexpr int kFirstTag = 1 << 20;

/// Moves the floats from `from` on between the parts and a bucket.
void Executor::Packed::copy(int64_t from, std::span<float> to, bool out) const {
  for (std::span<float> part : parts) {
    int64_t size = int64_t(part.size()), count = int64_t(to.size());
    if (from < size && count > 0) {
      count = std::min(count, size - from);
      if (out)
        std::copy_n(to.data(), count, part.data() + from);
      else
        std::copy_n(part.data() + from, count, to.data());
      to = to.subspan(size_t(count));
    }
    from = std::max<int64_t>(from - size, 0);
  }
}

Executor::Packed Executor::packed(std::span<const int> memories) const {
  Packed result;
  for (int index : memories) {
    const Memory &memory = program.memories[size_t(index)];
    auto *values = reinterpret_cast<float *>(arena.at(memory.place));
    result.parts.push_back({values, size_t(memory.bytes / 4)});
    result.elements += memory.bytes / 4;
  }
  return result;
}

void Executor::makeReplicas() {
  int64_t most = 0;
  size_t replicas = 1;
  for (Stage &stage : stages) {
    auto own = std::find(stage.info->ranks.begin(), stage.info->ranks.end(), program.rank);
    stage.replica = int(own - stage.info->ranks.begin());
    stage.gradients = packed(stage.info->gradients);
    stage.states = packed(stage.info->states);
    stage.otherReplicas = ", a replica of stage " + std::to_string(stage.info->id);
    replicas = std::max(replicas, stage.info->ranks.size());
    if (stage.info->ranks.size() > 1)
      most = std::max({most, stage.gradients.elements, stage.states.elements});
  }
  if (replicas > 1 && arena.isRemote())
    throw Error("rank ", program.rank,
                ": stages with replicas run on the CPU only; compile with "
                "--device cpu, or give each stage one rank");
  most = std::min(most, kBucketElements);
  bucket.resize(size_t(most));
  // One share of the bucket from each other replica.
  inbox.resize(size_t(most) + replicas);
  replicaMessages.reserve(2 * replicas);
}

/// Every replica has then the sum of all gradients, added in the order of the replicas, and the
/// mean of all running statistics; of those replicas that had a microbatch.
void Executor::reduceGradients(Stage &stage, int64_t last) {
  if (!hasBegun(stage, last))
    return;
  control.setActivity({"sums gradients with the other replicas", "", -1, stage.info->id,
                       Phase::update, step, last});
  Seconds begin = now();
  int present = participants(stage, last);
  for (const Packed *values : {&stage.gradients, &stage.states})
    for (int64_t from = 0; from < values->elements; from += int64_t(bucket.size())) {
      int64_t count = std::min(values->elements - from, int64_t(bucket.size()));
      std::span<float> part(bucket.data(), size_t(count));
      values->copy(from, part, false);
      sumBucket(stage, part, present);
      if (values == &stage.states)
        for (float &value : part)
          value /= float(present);
      values->copy(from, part, true);
    }
  events.add({Timeline::Kind::reduceGradients, Phase::update, stage.info->id, step, last, -1, 0,
              begin, now()});
}

/// Each replica adds one share of the bucket, then all get all shares: each float crosses twice, as
/// around a ring, and the order of the sum is always that of the replicas.
void Executor::sumBucket(const Stage &stage, std::span<float> bucket, int present) {
  int replicas = int(stage.info->ranks.size()), self = stage.replica;
  auto share = [&](int replica) {
    size_t from = bucket.size() * size_t(replica) / size_t(replicas);
    size_t to = bucket.size() * size_t(replica + 1) / size_t(replicas);
    return bucket.subspan(from, to - from);
  };
  std::span<float> own = share(self);
  auto received = [&](int replica) { return inbox.data() + size_t(replica) * own.size(); };
  auto message = [&](bool send, int other, int tag, float *data, size_t count) {
    if (count > 0)
      replicaMessages.push_back({send, stage.info->ranks[size_t(other)],
                                 kFirstTag + 2 * stage.info->id + tag,
                                 reinterpret_cast<std::byte *>(data), int64_t(count * 4)});
  };
  const std::string &others = stage.otherReplicas;
  // 1. Everyone's part of a share goes to who adds it.
  replicaMessages.clear();
  for (int other = 0; other < replicas; ++other) {
    if (other != self && self < present)
      message(true, other, 0, share(other).data(), share(other).size());
    if (other != self && other < present)
      message(false, other, 0, received(other), own.size());
  }
  meet(replicaMessages, others);
  // 2. Added in the order of the replicas.
  if (self < present)
    std::copy(own.begin(), own.end(), received(self));
  std::copy_n(received(0), own.size(), own.begin());
  for (int replica = 1; replica < present; ++replica)
    for (size_t i = 0; i < own.size(); ++i)
      own[i] += received(replica)[i];
  // 3. The shares go to everyone.
  replicaMessages.clear();
  for (int other = 0; other < replicas; ++other)
    if (other != self) {
      message(true, other, 1, own.data(), own.size());
      message(false, other, 1, share(other).data(), share(other).size());
    }
  meet(replicaMessages, others);
}

void Executor::meet(std::span<Message> messages, std::string_view who) {
  transport.beginGroup();
  transport.post(messages);
  transport.endGroup();
  Seconds begin = now();
  for (const Message &message : messages)
    while (!transport.wait(message.request, std::chrono::milliseconds(10))) {
      control.check();
      if (now() - begin < options.timeout)
        continue;
      std::ostringstream why;
      why << "nothing moves: rank " << program.rank << " waits for rank " << message.peer << who
          << ", longer than " << options.timeout << " s (--timeout)";
      control.fail(why.str(), true);
      control.check();
    }
}

} // namespace pdc::runtime
