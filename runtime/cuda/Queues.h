#pragma once

#include <cstdint>

/// The compiler plans with these numbers, too.
namespace pdc::runtime::cuda {

/// Queues of a GPU: so many streams of a process run independently.
constexpr int64_t kMostQueues = 32;

/// Of a rank: a stream for its tasks, one for its copies, one for the next step's inputs, four for
/// the sums over replicas, and the one in which NCCL keeps the order of its calls.
constexpr int64_t kQueuesOfEachRank = 8;

/// Whether a rank can exchange tensors over so many directed edges, and sum with so many others,
/// each stream having a queue to itself. An edge has a stream and the two that NCCL makes for each
/// communicator, in one of which it waits for the end of every message: what shares a queue with
/// that one waits, too.
constexpr bool haveQueues(int64_t edges, int64_t summedWith) {
  return kQueuesOfEachRank + 3 * edges + 2 * summedWith <= kMostQueues;
}

} // namespace pdc::runtime::cuda
