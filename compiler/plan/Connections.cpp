#include "compiler/plan/Connections.h"

#include <algorithm>
#include <map>
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

/// Stages of one rank have the same replicas.
static std::set<std::vector<int>> replicaGroups(const std::vector<std::vector<int>> &ranksOfStage) {
  return {ranksOfStage.begin(), ranksOfStage.end()};
}

int64_t countReplicaPairs(const std::vector<std::vector<int>> &ranksOfStage) {
  int64_t pairs = 0;
  for (const std::vector<int> &ranks : replicaGroups(ranksOfStage))
    pairs += static_cast<int64_t>(ranks.size() * (ranks.size() - 1) / 2);
  return pairs;
}

std::vector<int64_t> connectionBytesOfStages(const std::string &device,
                                             const std::vector<std::vector<int>> &ranksOfStage,
                                             const std::set<RankEdge> &tensors) {
  std::vector<int64_t> bytes(ranksOfStage.size());
  if (device != "cuda")
    return bytes;
  std::map<int, int64_t> senders; ///< by rank: how many others it receives from
  for (RankEdge edge : tensors)
    ++senders[edge.second];
  for (const std::vector<int> &ranks : replicaGroups(ranksOfStage))
    for (int rank : ranks)
      senders[rank] += static_cast<int64_t>(ranks.size()) - 1;
  std::set<int> seen;
  for (size_t stage = 0; stage < ranksOfStage.size(); ++stage)
    for (int rank : ranksOfStage[stage])
      if (seen.insert(rank).second)
        bytes[stage] = std::max(bytes[stage], connectionBytes * senders[rank]);
  return bytes;
}

} // namespace pdc
