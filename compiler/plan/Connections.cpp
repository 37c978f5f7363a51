#include "compiler/plan/Connections.h"

#include "compiler/devices/Queues.h"

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

/// As Executor::agreeOnGradients does it.
void addGatherEdges(std::vector<int> summing, std::vector<int> gathering,
                    std::set<RankEdge> &edges) {
  std::ranges::sort(summing);
  std::ranges::sort(gathering);
  for (size_t i = 0; i < gathering.size(); ++i)
    edges.insert({summing[i % summing.size()], gathering[i]});
}

void addTiedEdges(const std::vector<std::vector<int>> &ranksOfStage, const std::vector<int> &stages,
                  bool asynchronous, std::set<RankEdge> &edges) {
  if (asynchronous) {
    // It lives in the earliest of them.
    std::vector<Edge> messages;
    const int home = *std::ranges::min_element(stages);
    for (int stage : stages)
      for (auto [from, to] : {std::pair(home, stage), std::pair(stage, home)})
        messages.push_back({.fromStage = from, .toStage = to});
    edges.merge(rankEdges(ranksOfStage, messages));
    return;
  }
  for (int stage : stages) {
    std::set<int> others;
    for (int other : stages)
      if (ranksOfStage[other] != ranksOfStage[stage])
        others.insert(ranksOfStage[other].begin(), ranksOfStage[other].end());
    addGatherEdges(ranksOfStage[stage], {others.begin(), others.end()}, edges);
  }
}

/// Stages of one rank have the same replicas.
static std::set<std::vector<int>> replicaGroups(const std::vector<std::vector<int>> &ranksOfStage) {
  return {ranksOfStage.begin(), ranksOfStage.end()};
}

std::set<RankEdge> rankEdges(const Plan &plan, std::span<const std::vector<int>> tied) {
  const Schedule &rows = plan.schedule;
  std::set<RankEdge> edges = rankEdges(rows.ranksOfStage, plan.edges);
  for (const std::vector<int> &stages : tied)
    addTiedEdges(rows.ranksOfStage, stages, rows.asynchronous, edges);
  return edges;
}

/// Those that sum gradients with a rank.
static int64_t countOtherReplicas(const std::vector<std::vector<int>> &ranksOfStage, int rank) {
  std::set<int> others;
  for (const std::vector<int> &ranks : ranksOfStage)
    if (std::ranges::find(ranks, rank) != ranks.end())
      others.insert(ranks.begin(), ranks.end());
  others.erase(rank);
  return static_cast<int64_t>(others.size());
}

bool haveQueues(const std::vector<std::vector<int>> &ranksOfStage,
                const std::set<RankEdge> &edges) {
  std::map<int, int64_t> ends; ///< of edges, by rank
  for (auto [from, to] : edges) {
    ++ends[from];
    ++ends[to];
  }
  return std::ranges::all_of(ends, [&](const auto &rank) {
    return haveQueues(rank.second, countOtherReplicas(ranksOfStage, rank.first));
  });
}

std::string whyNotConnected() {
  return "the messages between GPUs are not proven with a communicator per pair of ranks, and a "
         "GPU "
         "has too few queues for one per directed edge (" +
         std::to_string(kMostQueues) +
         ", of which a rank needs three for each edge and two for each other replica); what would "
         "help: another schedule, or fewer ranks";
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
