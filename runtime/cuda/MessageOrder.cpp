#include "runtime/Error.h"
#include "runtime/NamedNumbers.h"
#include "runtime/cuda/NcclTransport.h"

#include <map>
#include <set>
#include <sstream>

namespace pdc::runtime::cuda {

std::string messageOrder(const Program &program, int from, int to) {
  std::string order;
  auto add = [&](std::span<const Step> rows, int64_t base) {
    for (const Step &row : rows) {
      const bool sends = row.kind == StepKind::send;
      if (!sends && row.kind != StepKind::receive)
        continue;
      const Transfer &transfer = program.transfers[row.transfer];
      const int peer = peerOf(transfer, row.microbatch + base);
      if ((sends ? program.rank : peer) == from && (sends ? peer : program.rank) == to)
        order += std::to_string(transfer.tag) + "/" + std::to_string(transfer.bytes) + "/" +
                 std::to_string(int(transfer.element)) + " ";
    }
  };
  add(program.evaluation.repeat, 0);
  order += "| ";
  add(program.training.step, 0);
  add(program.training.warmUp, 0);
  for (int i = 0; i < 3; ++i)
    add(program.training.repeat, i * program.training.period);
  add(program.training.drain, 3 * program.training.period);
  return order;
}

void compareOrders(const Program &program, Control &control) {
  const int self = control.rank(), size = control.ranks();
  std::string mine;
  for (int peer = 0; peer < size; ++peer)
    mine += messageOrder(program, self, peer) + "\n" + messageOrder(program, peer, self) + "\n";
  std::vector<std::string> all;
  control.gather(mine, all);
  std::vector<std::vector<std::string>> orders;
  for (const std::string &text : all) {
    std::istringstream stream(text);
    orders.emplace_back();
    for (std::string line; std::getline(stream, line);)
      orders.back().push_back(line);
  }
  for (int from = 0; from < size; ++from)
    for (int to = 0; to < size; ++to)
      if (orders[size_t(from)].at(2 * size_t(to)) != orders[to].at(2 * from + 1))
        throw Error("rank ", from, " sends rank ", to, " messages (tag/bytes) in the order '",
                    orders[from][2 * to], "' and they are received in the order '",
                    orders[to][2 * from + 1],
                    "', which NCCL cannot tell apart; build all stages "
                    "from one plan, or report this plan");
}

/// What may be told under a name: tensors have others.
constexpr const char *kReceiver = "";

static std::string listed(const std::set<int> &ranks) {
  std::string text;
  for (int rank : ranks)
    text += namedNumber(kReceiver, rank);
  return text;
}

std::string otherReplicas(const Program &program) {
  std::set<int> ranks;
  for (const StageInfo &stage : program.stages)
    ranks.insert(stage.ranks.begin(), stage.ranks.end());
  ranks.erase(program.rank);
  return listed(ranks);
}

std::string allOthers(int rank, int ranks) {
  std::set<int> others;
  for (int other = 0; other < ranks; ++other)
    others.insert(other);
  others.erase(rank);
  return listed(others);
}

std::string receivers(const Program &program) {
  std::set<int> ranks;
  const Rows &rows = program.training;
  for (std::span<const Step> part :
       {rows.step, rows.warmUp, rows.repeat, rows.drain, program.evaluation.repeat})
    for (const Step &row : part)
      if (row.kind == StepKind::send) {
        const Transfer &transfer = program.transfers[row.transfer];
        ranks.insert(transfer.peers.begin(), transfer.peers.end());
      }
  std::string text = listed(ranks);
  for (const Memory &memory : program.memories)
    if (memory.role == Role::gradient || memory.role == Role::gathered)
      text += namedNumber(memory.name, memory.role == Role::gathered);
  return text;
}

std::vector<std::vector<int>> edgesOf(const std::vector<std::string> &told) {
  std::vector<std::set<int>> edges(told.size());
  std::map<std::string, std::pair<std::vector<int>, std::vector<int>>>
      tied; // who sums, who gathers
  for (int rank = 0; rank < int(told.size()); ++rank)
    for (const auto &[name, number] : namedNumbers(told[size_t(rank)], rank))
      if (name == kReceiver)
        edges[size_t(rank)].insert(int(number));
      else
        (number ? tied[name].second : tied[name].first).push_back(rank);
  // As Executor::agreeOnGradients takes turns.
  for (const auto &[name, ranks] : tied)
    for (size_t i = 0; i < ranks.second.size() && !ranks.first.empty(); ++i)
      edges[size_t(ranks.first[i % ranks.first.size()])].insert(ranks.second[i]);
  std::vector<std::vector<int>> lists;
  for (const std::set<int> &edge : edges)
    lists.emplace_back(edge.begin(), edge.end());
  return lists;
}

} // namespace pdc::runtime::cuda
