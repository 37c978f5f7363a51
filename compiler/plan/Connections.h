#pragma once

#include "compiler/plan/Plan.h"

#include <set>
#include <string>
#include <utility>

namespace pdc {

/// From one rank to another.
using RankEdge = std::pair<int, int>;

/// What NCCL 2.28 keeps for each rank that another receives from: the buffers of its three
/// protocols (0.5, 4.7 and 4 MiB, in pieces of 2 MiB) for each of the channels that the runtime
/// allows. By its sources; not measured.
constexpr int64_t connectionBytes = 4 * (int64_t(10) << 20);

/// From which rank to which tensors of these edges go: microbatches take turns at the replicas of
/// both ends.
std::set<RankEdge> rankEdges(const std::vector<std::vector<int>> &ranksOfStage,
                             std::span<const Edge> edges);

/// The messages of the gradients of one weight that these stages use, between which a synchronous
/// schedule exchanges them and an asynchronous one sends values there and gradients back.
void addTiedEdges(const std::vector<std::vector<int>> &ranksOfStage, const std::vector<int> &stages,
                  bool asynchronous, std::set<RankEdge> &edges);

/// Of the gradient of one use: from the ranks that sum it, which take turns, to those that gather
/// it.
void addGatherEdges(std::vector<int> summing, std::vector<int> gathering,
                    std::set<RankEdge> &edges);

/// Of the values and gradients of a plan, and of what tied weights exchange: for each weight, the
/// stages that use it.
std::set<RankEdge> rankEdges(const Plan &plan, std::span<const std::vector<int>> tied);

/// Whether what each rank exchanges over directed edges can have queues of its own.
bool haveQueues(const std::vector<std::vector<int>> &ranksOfStage, const std::set<RankEdge> &edges);

/// Why messages that are not proven in pairs, and have no queues of their own, cannot be sent.
std::string whyNotConnected();

/// How many pairs of ranks are replicas of each other: sums over them go by communicators of their
/// own.
int64_t countReplicaPairs(const std::vector<std::vector<int>> &ranksOfStage);

/// By stage: what the connections take of the memory of its ranks, at most. The first stage of a
/// rank has them. Nothing where no NCCL moves the messages.
std::vector<int64_t> connectionBytesOfStages(const std::string &device,
                                             const std::vector<std::vector<int>> &ranksOfStage,
                                             const std::set<RankEdge> &tensors);

} // namespace pdc
