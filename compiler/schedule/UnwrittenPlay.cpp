#include "compiler/Error.h"
#include "compiler/schedule/Replicas.h"
#include "compiler/schedule/Rhythm.h"

#include <algorithm>
#include <array>
#include <map>

namespace pdc {

namespace {

/// Ranks at work, each at the next run of its order.
class OrderPlayer {
public:
  OrderPlayer(const Schedule &schedule, std::span<const Edge> edges, const PlayCosts &costs,
              int64_t microbatches);
  double play();

private:
  /// Forward; backward or input gradient; weight gradient.
  static constexpr int kParts = 3;

  /// What a stage sends to another in a phase: its tensors go one behind the other, and the reader
  /// waits for the last.
  struct Line {
    int from, to;
    double seconds = 0;
    size_t arrivals = 0; ///< its first in `arrived`
    size_t links = 0;    ///< its first in `linkOfPair`
  };
  /// One stage of a rank.
  struct Chunk {
    int stage = 0;
    int64_t replica = 0;
    std::array<int64_t, kParts> turns{}; ///< behind it, by part
    int64_t untilUpdate = 0;             ///< of an asynchronous schedule: backward passes
  };
  struct Rank {
    const RankOrder *order = nullptr;
    size_t next = 0;
    std::vector<Chunk> chunks;
    double clock = 0;
    bool waits = true; ///< not among those to look at
  };
  struct Stage {
    std::array<double, kParts> seconds{};
    std::array<std::vector<int>, kParts> in, out; ///< lines by part
    double update = 0; ///< behind backward passes, of an asynchronous schedule
    int64_t turnsPerUpdate = 1;
    int64_t replicas = 1;
  };

  void addStages();
  void addLines(std::span<const Edge> edges);
  void addLinks(Line &line, std::map<std::pair<int, int>, int> &numbers);
  void advance(Rank &rank);
  bool run(Rank &rank, Chunk &chunk, int part);
  void send(const Line &line, int64_t microbatch, double now);
  void look(int rank);
  double close() const;

  const Schedule &schedule;
  const PlayCosts &costs;
  int64_t microbatches;
  std::vector<RankOrder> orders;
  std::vector<Stage> stages;
  std::vector<Line> lines;
  std::vector<Rank> ranks;
  std::vector<int> linkOfPair; ///< by line, replica that sends and replica that receives; -1: none
  std::vector<double> arrived, linkFree;
  std::vector<int> ready;
};

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
    stage.turnsPerUpdate =
        std::max<int64_t>(1, microbatchesPerUpdate(schedule, number) / stage.replicas);
    for (int64_t replica = 0; replica < stage.replicas; ++replica)
      ranks[schedule.ranksOfStage[number][replica]].chunks.push_back(
          {number, replica, {}, stage.turnsPerUpdate});
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

/// Which of them: most stages have one, and a division takes as long as all else.
int64_t replicaOf(int64_t microbatch, int64_t replicas) {
  return replicas == 1 ? 0 : microbatch % replicas;
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
bool OrderPlayer::run(Rank &rank, Chunk &chunk, int part) {
  const Stage &stage = stages[chunk.stage];
  int64_t turn = chunk.turns[part], microbatch = chunk.replica + turn * stage.replicas;
  double start = rank.clock;
  for (int line : stage.in[part]) {
    double time = arrived[lines[line].arrivals + static_cast<size_t>(microbatch)];
    if (time < 0)
      return false;
    start = std::max(start, time);
  }
  rank.clock = start + stage.seconds[part];
  for (int line : stage.out[part])
    send(lines[line], microbatch, rank.clock);
  if (part == 1 && schedule.asynchronous && --chunk.untilUpdate == 0) {
    rank.clock += stage.update;
    chunk.untilUpdate = stage.turnsPerUpdate;
  }
  ++chunk.turns[part];
  return true;
}

/// Up to the run that has to wait.
void OrderPlayer::advance(Rank &rank) {
  for (; rank.next < rank.order->size(); ++rank.next) {
    auto [chunk, phase] = (*rank.order)[rank.next];
    int part = phase == Phase::forward ? 0 : phase == Phase::backwardWeight ? 2 : 1;
    if (!run(rank, rank.chunks[chunk], part))
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
    double &end = ends[schedule.ranksOfStage[rank.chunks[0].stage][0]];
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

double OrderPlayer::play() {
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

} // namespace

double playUnwritten(const Schedule &schedule, std::span<const Edge> edges,
                     const PlayCosts &costs) {
  auto play = [&](int64_t microbatches) {
    return OrderPlayer(schedule, edges, costs, microbatches).play();
  };
  if (!schedule.asynchronous)
    return play(schedule.microbatches);
  // The difference of two runs of equal warm-up and drain is steady state alone.
  int64_t settle = iterationsToSettle(schedule) * schedule.period;
  return (play(2 * settle) - play(settle)) / static_cast<double>(settle) *
         static_cast<double>(schedule.microbatches);
}

} // namespace pdc
