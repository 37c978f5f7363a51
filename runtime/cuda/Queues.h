#pragma once

#include <cstdint>

/// The compiler plans with these numbers, too.
namespace pdc::runtime::cuda {

/// Queues of a GPU: so many streams of a process run independently.
constexpr int64_t kMostQueues = 32;

/// Directed edges to and from a rank, each with a stream. Beside them a rank has a stream for its
/// tasks, one for its copies, one for the next step's inputs, and four for the sums over replicas;
/// those that NCCL makes by itself are not counted.
constexpr int64_t kMostEdges = kMostQueues - 7;

} // namespace pdc::runtime::cuda
