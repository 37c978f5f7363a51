#include "compiler/schedule/OrderPlayer.h"

#include "compiler/Error.h"
#include "compiler/schedule/Replicas.h"

#include <algorithm>

namespace pdc {

OrderPlayer::OrderPlayer(const Schedule &schedule, std::span<const Edge> edges,
                         const PlayCosts &costs, int64_t microbatches)
    : schedule(schedule), costs(costs), microbatches(microbatches), stages(schedule.stages()) {
  Pipeline pipeline{schedule.stages(), schedule.ranksOfStage, microbatches};
  ranks.resize(pipeline.ranks());
  RankOrders all = ordersOf(schedule.name, pipeline);
  orders = std::move(all.orders);
  for (size_t rank = 0; rank < ranks.size(); ++rank)
    ranks[rank].order = &orders[all.orderOfRank[rank]];
  addStages();
  addLines(edges);
}

void OrderPlayer::addStages() {
  std::vector<bool> split = findSplitStages(schedule);
  for (int number = 0; number < schedule.stages(); ++number) {
    Stage &stage = stages[number];
    const StageSeconds &own = costs.stages[number];
    stage.replicas = schedule.replicas(number);
    stage.seconds = {own.forward, own.of(split[number] ? Phase::backwardInput : Phase::backward),
                     own.backwardWeight};
    stage.update = schedule.asynchronous ? own.update : 0;
    stage.sum = costs.reductions.empty() ? 0 : costs.reductions[number];
    stage.turnsPerUpdate =
        std::max<int64_t>(1, microbatchesPerUpdate(schedule, number) / stage.replicas);
    for (int64_t replica = 0; replica < stage.replicas; ++replica) {
      Rank &rank = ranks[schedule.ranksOfStage[number][replica]];
      rank.replica = replica;
      rank.stages.push_back(number);
      rank.turns.emplace_back();
    }
  }
}

void OrderPlayer::addLines(std::span<const Edge> edges) {
  std::map<std::pair<int, int>, double> seconds;
  for (const Edge &edge : edges)
    seconds[{edge.fromStage, edge.toStage}] += costs.edges.empty() ? 0 : costs.edges[edge.id];
  std::map<std::pair<int, int>, int> numbers;
  for (auto [ends, sum] : seconds) {
    auto [from, to] = ends;
    // Activations go to later stages, gradients to earlier ones.
    int part = from < to ? 0 : 1, number = static_cast<int>(lines.size());
    stages[from].out[part].push_back(number);
    stages[to].in[part].push_back(number);
    lines.push_back({from, to, sum, lines.size() * static_cast<size_t>(microbatches)});
    addLinks(lines.back(), numbers);
  }
  arrived.assign(lines.size() * static_cast<size_t>(microbatches), -1);
  linkFree.assign(numbers.size(), 0);
}

/// Lines between the same two ranks share their link; what stays on a rank needs none.
void OrderPlayer::addLinks(Line &line, std::map<std::pair<int, int>, int> &numbers) {
  line.links = linkOfPair.size();
  for (int from : schedule.ranksOfStage[line.from])
    for (int to : schedule.ranksOfStage[line.to]) {
      auto next = static_cast<int>(numbers.size());
      linkOfPair.push_back(from == to ? -1 : numbers.try_emplace({from, to}, next).first->second);
    }
}

void OrderPlayer::look(int number) {
  if (!ranks[number].waits)
    return;
  ranks[number].waits = false;
  ready.push_back(number);
}

/// The first replicas may have a turn more at the end: no update sums what the others do not have.
bool OrderPlayer::updatesBehind(int stage, int64_t turn) const {
  const Stage &own = stages[stage];
  return schedule.asynchronous && (turn + 1) * own.replicas <= microbatches &&
         (own.turnsPerUpdate == 1 || (turn + 1) % own.turnsPerUpdate == 0);
}

/// Replicas sum their gradients together, when the last of them has come.
void OrderPlayer::update(Rank &rank, int number, int64_t microbatch) {
  Stage &stage = stages[number];
  stage.lastCame = std::max(stage.lastCame, rank.clock);
  rank.sums = true;
  if (++stage.arrived < stage.replicas)
    return;
  double end = stage.lastCame + (stage.replicas > 1 ? stage.sum : 0);
  for (int64_t replica = 0; replica < stage.replicas; ++replica) {
    int own = schedule.ranksOfStage[number][replica];
    ranks[own].clock = end + stage.update;
    ranks[own].sums = false;
    if (stage.replicas > 1)
      look(own);
    int64_t turn = microbatch / stage.replicas * stage.replicas + replica;
    if (starts)
      (*starts)[number].updates[static_cast<size_t>(turn)] = static_cast<int>(end);
  }
  stage.arrived = 0;
  stage.lastCame = 0;
}

void OrderPlayer::send(const Line &line, int64_t microbatch, double now) {
  int64_t readers = stages[line.to].replicas, reader = replicaOf(microbatch, readers);
  int64_t pair = replicaOf(microbatch, stages[line.from].replicas) * readers + reader;
  double &arrival = arrived[line.arrivals + static_cast<size_t>(microbatch)];
  if (int link = linkOfPair[line.links + static_cast<size_t>(pair)]; link >= 0)
    arrival = linkFree[link] = std::max(linkFree[link], now) + line.seconds;
  else
    arrival = now;
  look(schedule.ranksOfStage[line.to][reader]);
}

/// False where an input has not come.
bool OrderPlayer::run(Rank &rank, size_t chunk, int part) {
  const int number = rank.stages[chunk];
  const Stage &stage = stages[number];
  int64_t &turn = rank.turns[chunk][part], microbatch = rank.replica + turn * stage.replicas;
  double start = rank.clock;
  for (int line : stage.in[part]) {
    double time = arrived[lines[line].arrivals + static_cast<size_t>(microbatch)];
    if (time < 0)
      return false;
    start = std::max(start, time);
  }
  if (starts)
    (*starts)[number].parts[part][static_cast<size_t>(microbatch)] = static_cast<int>(start);
  rank.clock = start + stage.seconds[part];
  for (int line : stage.out[part])
    send(lines[line], microbatch, rank.clock);
  if (part == 1 && updatesBehind(number, turn))
    update(rank, number, microbatch);
  ++turn;
  return true;
}

/// Up to the run that has to wait.
void OrderPlayer::advance(Rank &rank) {
  for (; rank.next < rank.order->size() && !rank.sums; ++rank.next) {
    auto [chunk, phase] = (*rank.order)[rank.next];
    if (!run(rank, chunk, partOf(phase)))
      return;
  }
}

/// The sums over replicas, one behind the other, that over all ranks, and the updates.
double OrderPlayer::close() const {
  std::vector<double> ends(ranks.size()), updates(ranks.size());
  for (const Rank &rank : ranks) {
    if (rank.next < rank.order->size())
      throw Error("schedule " + schedule.name +
                  " cannot run: a task comes before one that makes its inputs");
    double &end = ends[schedule.ranksOfStage[rank.stages[0]][0]];
    end = std::max(end, rank.clock);
  }
  for (size_t stage = 0; stage < stages.size(); ++stage) {
    int first = schedule.ranksOfStage[stage][0];
    if (stages[stage].replicas > 1 && !costs.reductions.empty())
      ends[first] += costs.reductions[stage];
    updates[first] += costs.stages[stage].update;
  }
  return *std::ranges::max_element(ends) + costs.allReduce + *std::ranges::max_element(updates);
}

double OrderPlayer::play(std::vector<RunStarts> *kept) {
  starts = kept;
  if (starts) {
    auto count = static_cast<size_t>(microbatches);
    std::vector<int> none(count, -1);
    starts->assign(stages.size(), {{none, none, none}, none});
  }
  for (size_t rank = ranks.size(); rank-- > 0;)
    look(static_cast<int>(rank));
  while (!ready.empty()) {
    Rank &rank = ranks[ready.back()];
    ready.pop_back();
    rank.waits = true;
    advance(rank);
  }
  return close();
}

} // namespace pdc
