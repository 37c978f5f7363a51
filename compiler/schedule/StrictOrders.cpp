#include "compiler/schedule/StrictOrders.h"

#include "compiler/schedule/Replicas.h"
#include "compiler/schedule/Transfers.h"

#include <algorithm>

namespace pdc {

StrictOrders::StrictOrders(const OrderPlayer &player, const Schedule &schedule,
                           std::span<const Edge> edges)
    : player(player), schedule(schedule), transfers(schedule.stages()),
      ranks(static_cast<size_t>(player.countRanks())), arrived(schedule.stages()),
      linesOfEdge(edges.size()) {
  if (schedule.asynchronous)
    ahead = forwardsAhead(schedule.ranksOfStage, true);
  for (size_t rank = 0; rank < ranks.size(); ++rank)
    ranks[rank].turns.resize(player.stagesOf(static_cast<int>(rank)).size());
  const StageEdges ofStages(edges, schedule.stages());
  const std::vector<bool> split = findSplitStages(schedule);
  for (int stage = 0; stage < schedule.stages(); ++stage)
    for (Phase phase : {Phase::forward, split[stage] ? Phase::backwardInput : Phase::backward})
      for (bool sent : {false, true})
        transfers[stage][partOf(phase)][sent] =
            transfersAtRun(schedule, ofStages, {stage, phase, 0}, sent);
  for (const Edge &edge : edges)
    for (int from : schedule.ranksOfStage[edge.fromStage])
      for (int to : schedule.ranksOfStage[edge.toStage])
        linesOfEdge[edge.id].push_back(&lines[{from, to}]);
}

void StrictOrders::addMessages(int stage, Phase phase, int64_t microbatch, bool sent,
                               std::vector<Message> &messages) const {
  for (const Edge *edge : transfers[stage][partOf(phase)][sent])
    messages.push_back({edge, microbatch, sent});
}

StrictOrders::Line &StrictOrders::lineOf(const Message &message) {
  const int64_t readers = schedule.replicas(message.edge->toStage);
  const int64_t from = replicaOf(message.microbatch, schedule.replicas(message.edge->fromStage));
  return *linesOfEdge[message.edge->id]
                     [static_cast<size_t>(from * readers + replicaOf(message.microbatch, readers))];
}

/// Groups do not span the end of the warm-up.
bool StrictOrders::isBorder(int stage, Phase phase, int64_t turn) const {
  return schedule.asynchronous && phase == Phase::forward && turn == ahead[stage];
}

int64_t StrictOrders::microbatchOf(int rank, int stage, int64_t turn) const {
  return player.replicaOn(rank) + turn * schedule.replicas(stage);
}

/// The sends of the last run, and where nothing stands between, the receives of the next.
void StrictOrders::gather(int number) {
  Rank &rank = ranks[number];
  const RankOrder &order = player.orderOf(number);
  rank.group.swap(rank.left);
  rank.left.clear();
  rank.runs = false;
  if (rank.updates < 0 && !order.endsAt(rank.next)) {
    auto [chunk, phase] = order.at(rank.next);
    const int stage = player.stagesOf(number)[chunk];
    const int64_t turn = rank.turns[chunk][partOf(phase)];
    rank.runs = rank.group.empty() || !isBorder(stage, phase, turn);
    if (rank.runs)
      addMessages(stage, phase, microbatchOf(number, stage, turn), false, rank.group);
  }
  reach(number);
}

/// Both sides have to mean the same tensor.
void StrictOrders::reach(int number) {
  Rank &rank = ranks[number];
  rank.gathered = true;
  rank.needs.clear();
  for (const Message &message : rank.group) {
    Line &line = lineOf(message);
    const int side = message.sent ? 0 : 1;
    const int64_t turn = line.reached[side]++;
    const Token token{message.edge->id, message.microbatch};
    if (line.reached[1 - side] > turn)
      mismatch |= line.takeOpen() != token;
    else
      line.open.push_back(token);
    rank.needs.push_back({&line, {1 - side, turn}});
    const int other = message.sent ? message.edge->toStage : message.edge->fromStage;
    look(schedule.rankOf(other, message.microbatch));
  }
}

bool StrictOrders::met(const Rank &rank) const {
  return std::ranges::all_of(rank.needs, [](const auto &need) {
    return need.first->reached[need.second.first] > need.second.second;
  });
}

/// Replicas go on when the last has come.
void StrictOrders::update(int number) {
  const int stage = ranks[number].updates;
  ranks[number].updates = -1;
  if (++arrived[stage] < schedule.replicas(stage)) {
    ranks[number].sums = true;
    return;
  }
  arrived[stage] = 0;
  for (int other : schedule.ranksOfStage[stage]) {
    ranks[other].sums = false;
    look(other);
  }
}

void StrictOrders::run(int number) {
  Rank &rank = ranks[number];
  const RankOrder &order = player.orderOf(number);
  auto [chunk, phase] = order.at(rank.next);
  order.advance(rank.next);
  const int stage = player.stagesOf(number)[chunk];
  const int64_t turn = rank.turns[chunk][partOf(phase)]++;
  addMessages(stage, phase, microbatchOf(number, stage, turn), true, rank.left);
  if (partOf(phase) == 1 && player.updatesBehind(stage, turn))
    rank.updates = stage;
}

void StrictOrders::look(int number) {
  if (!ranks[number].waits)
    return;
  ranks[number].waits = false;
  ready.push_back(number);
}

/// Up to a group whose peers have not come, or to the end.
void StrictOrders::advance(int number) {
  Rank &rank = ranks[number];
  while (!rank.sums && !rank.ended) {
    if (!rank.gathered)
      gather(number);
    if (!met(rank))
      return;
    rank.gathered = false;
    if (rank.runs)
      run(number);
    else if (rank.updates >= 0)
      update(number);
    else
      rank.ended = player.orderOf(number).endsAt(rank.next);
  }
}

bool StrictOrders::end() {
  for (size_t rank = ranks.size(); rank-- > 0;)
    look(static_cast<int>(rank));
  while (!ready.empty() && !mismatch) {
    const int rank = ready.back();
    ready.pop_back();
    ranks[rank].waits = true;
    advance(rank);
  }
  return !mismatch && std::ranges::all_of(ranks, &Rank::ended);
}

} // namespace pdc
