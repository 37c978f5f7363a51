#include "compiler/plan/Connections.h"

#include <algorithm>
#include <numeric>

namespace pdc {

std::set<RankEdge> rankEdges(const std::vector<std::vector<int>> &ranksOfStage,
                             std::span<const Edge> edges) {
  std::set<RankEdge> found;
  for (const Edge &edge : edges) {
    const std::vector<int> &from = ranksOfStage[edge.fromStage], &to = ranksOfStage[edge.toStage];
    const size_t turns = std::lcm(from.size(), to.size());
    for (size_t microbatch = 0; microbatch < turns; ++microbatch)
      if (RankEdge ranks{from[microbatch % from.size()], to[microbatch % to.size()]};
          ranks.first != ranks.second)
        found.insert(ranks);
  }
  return found;
}

std::set<RankEdge> replicaEdges(const std::vector<std::vector<int>> &ranksOfStage) {
  std::set<RankEdge> found;
  for (const std::vector<int> &replicas : ranksOfStage)
    for (int from : replicas)
      for (int to : replicas)
        if (from != to)
          found.insert({from, to});
  return found;
}

static int64_t countReceived(const std::set<RankEdge> &edges, int rank) {
  return std::ranges::count_if(edges, [&](RankEdge edge) { return edge.second == rank; });
}

std::vector<int64_t> connectionBytesOfStages(const std::string &device,
                                             const std::vector<std::vector<int>> &ranksOfStage,
                                             const std::set<RankEdge> &tensors) {
  std::vector<int64_t> bytes(ranksOfStage.size());
  if (device != "cuda")
    return bytes;
  const std::set<RankEdge> shares = replicaEdges(ranksOfStage);
  std::set<int> seen;
  for (size_t stage = 0; stage < ranksOfStage.size(); ++stage)
    for (int rank : ranksOfStage[stage])
      if (seen.insert(rank).second)
        bytes[stage] = std::max(bytes[stage], connectionBytes * (countReceived(tensors, rank) +
                                                                 countReceived(shares, rank)));
  return bytes;
}

} // namespace pdc
