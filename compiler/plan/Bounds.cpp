#include "compiler/plan/Bounds.h"

#include "compiler/cost/ClosedForm.h"
#include "compiler/schedule/Rows.h"
#include "compiler/simulator/PlanSimulation.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <tuple>

namespace pdc {

double microbatchSeconds(const PlanUnit &unit) {
  return unit.forwardSeconds + unit.backwardInputSeconds + unit.backwardWeightSeconds;
}

double accumulationSeconds(const PlanUnit &unit) {
  return (unit.accumulationSlowdown - 1) * unit.backwardWeightSeconds;
}

/// Seconds of one microbatch forward and back along the longest path, without weight gradients,
/// which nobody waits for.
static double longestPath(const PlanGraph &graph) {
  const size_t count = graph.units.size();
  auto readersOf = [&](std::span<const PlanValue> values) {
    std::vector<std::vector<int>> readers(count);
    for (const PlanValue &value : values)
      readers[value.producer].insert(readers[value.producer].end(), value.consumers.begin(),
                                     value.consumers.end());
    return readers;
  };
  const auto readers = readersOf(graph.values), returns = readersOf(graph.gradients);
  // When the unit's next pass begins.
  std::vector<double> start(count);
  for (size_t i = 0; i < count; ++i) {
    start[i] += graph.units[i].forwardSeconds;
    for (int reader : readers[i])
      start[reader] = std::max(start[reader], start[i]);
  }
  double longest = 0;
  for (size_t i = count; i-- > 0;) {
    const double end = start[i] + graph.units[i].backwardInputSeconds;
    longest = std::max(longest, end);
    for (int reader : returns[i])
      start[reader] = std::max(start[reader], end);
  }
  return longest;
}

Work::Work(const PlanGraph &graph) : path(longestPath(graph)) {
  double beside = 0, updatesBeside = 0;
  for (const PlanUnit &unit : graph.units) {
    microbatch += microbatchSeconds(unit);
    largest = std::max(largest, microbatchSeconds(unit));
    backward += unit.backwardInputSeconds + unit.backwardWeightSeconds;
    weights += unit.backwardWeightSeconds;
    update += unit.updateSeconds;
    accumulation += accumulationSeconds(unit);
    gradients += unit.gradientBytes;
    beside += unit.slowdown * microbatchSeconds(unit);
    updatesBeside += unit.updateSlowdown * unit.updateSeconds;
  }
  if (microbatch > 0)
    slowdown = beside / microbatch;
  if (update > 0)
    updateSlowdown = updatesBeside / update;
}

namespace {

/// Whether every unit feeds the next and gets a gradient from it.
bool isChain(const PlanGraph &graph) {
  auto linksNeighbours = [&](std::span<const PlanValue> values) {
    std::vector<bool> linked(graph.units.size());
    for (const PlanValue &value : values)
      for (int consumer : value.consumers)
        if (std::abs(consumer - value.producer) == 1)
          linked[std::max(consumer, value.producer)] = true;
    return std::all_of(linked.begin() + 1, linked.end(), [](bool is) { return is; });
  };
  return linksNeighbours(graph.values) && linksNeighbours(graph.gradients);
}

/// The least part of a unit's work that must be done before the units behind it can begin or after
/// they have ended.
double leastShareInFront(const PlanGraph &graph, bool split) {
  double least = 1;
  for (const PlanUnit &unit : graph.units)
    if (double all = microbatchSeconds(unit); split && all > 0)
      least = std::min(least, unit.forwardSeconds / all);
  return isChain(graph) ? least : 0;
}

/// Seconds that each port is busy per minibatch, or per microbatch of an asynchronous plan.
class PortLoad {
public:
  explicit PortLoad(const Plan &plan) : plan(plan) {
    for (const Edge &edge : plan.edges)
      addEdge(edge);
    for (const PlanStage &stage : plan.stages)
      addSum(stage);
  }
  double most() const {
    double most = 0;
    for (const auto &[port, seconds] : busy)
      most = std::max(most, seconds);
    return most;
  }

private:
  /// Replicas take microbatches in turn, so that pairs of them repeat.
  void addEdge(const Edge &edge) {
    const std::vector<int> &from = plan.stages[edge.fromStage].ranks;
    const std::vector<int> &to = plan.stages[edge.toStage].ranks;
    constexpr size_t enough = 4096;
    size_t round = std::min(std::lcm(from.size(), to.size()), enough);
    auto messages = static_cast<double>(plan.schedule.microbatches);
    for (size_t i = 0; i < round; ++i)
      add(from[i % from.size()], to[i % to.size()],
          static_cast<double>(edge.bytes) * messages / static_cast<double>(round));
  }

  void addSum(const PlanStage &stage) {
    auto members = static_cast<double>(stage.ranks.size());
    double bytes = 2 * (members - 1) / members * static_cast<double>(stage.gradientBytes);
    // An update that does not sum them takes a microbatch of each replica.
    bytes /= plan.schedule.sumsMicrobatches() ? 1 : members;
    for (size_t i = 0; i < stage.ranks.size(); ++i)
      add(stage.ranks[i], stage.ranks[(i + 1) % stage.ranks.size()], bytes);
  }

  void add(int from, int to, double bytes) {
    if (from == to)
      return;
    if (int own = plan.topology.ownLink(from, to); own >= 0) {
      size_t behindLevels = plan.topology.levels.size();
      busy[{behindLevels, own, from < to}] += bytes / plan.topology.links[own].link.bytesPerSecond;
      return;
    }
    size_t number = 0;
    for (const Level &level : plan.topology.levels) {
      if (from / level.workers == to / level.workers || number + 1 == plan.topology.levels.size()) {
        if (level.link.bytesPerSecond > 0)
          for (auto [component, out] : {std::pair(from, true), std::pair(to, false)})
            busy[{number, component, out}] += bytes / (level.link.bytesPerSecond * level.ports);
        return;
      }
      from /= level.workers;
      to /= level.workers;
      ++number;
    }
  }

  const Plan &plan;
  std::map<std::tuple<size_t, int, bool>, double> busy; ///< by level, component and direction
};

/// Seconds per minibatch in which ranks compute: of the heaviest, and of all together.
struct RankWork {
  double heaviest = 0, all = 0;

  explicit RankWork(const Plan &plan) {
    auto runs = static_cast<double>(plan.schedule.microbatches);
    std::map<int, double> ranks;
    for (const PlanStage &stage : plan.stages) {
      // Updates that do not sum them take a microbatch of each replica.
      double updates = plan.schedule.sumsMicrobatches() ? 1 : 1.0 / stage.replicas;
      double own = runs * (stage.forwardSeconds + stage.backwardSeconds) / stage.replicas +
                   updates * stage.updateSeconds;
      for (int rank : stage.ranks)
        heaviest = std::max(heaviest, ranks[rank] += own);
      all += own * stage.replicas;
    }
  }
};

/// The rows, played over links that take no time.
double secondsOverFreeLinks(const Plan &plan) {
  Plan free = plan;
  for (Level &level : free.topology.levels)
    level.link = {};
  free.topology.links.clear();
  return simulatedSecondsPerMinibatch(free);
}

} // namespace

double leastSecondsOfUpdate(const PlanGraph &graph, const Topology &topology, int threads,
                            int64_t microbatches) {
  const Work work(graph);
  double all = static_cast<double>(microbatches) * work.microbatch;
  return std::max(all / topology.workersAtOnce(threads), work.path);
}

double boundSeconds(const PlanGraph &graph, int stages, const Schedule &schedule) {
  Work work(graph);
  double ranks = 0, most = 1;
  for (const std::vector<int> &replicas : schedule.ranksOfStage) {
    ranks += static_cast<double>(replicas.size());
    most = std::max(most, static_cast<double>(replicas.size()));
  }
  auto count = static_cast<double>(schedule.microbatches);
  if (schedule.asynchronous)
    return std::max((count * work.microbatch + work.update / most) / ranks,
                    count * work.largest / most);
  // Where a rank runs several stages nothing is certain but its work.
  Pipeline placed{schedule.stages(), schedule.ranksOfStage, schedule.microbatches};
  bool shared = sharesRanks(placed);
  if (shared)
    ranks = static_cast<double>(placed.ranks());
  if (most > 1 || shared)
    return count * std::max(work.microbatch / ranks, work.largest / most);
  double share = leastShareInFront(graph, splitsBackward(schedule));
  double pipeline = share > 0 ? share * work.microbatch / (1 - std::pow(1 - share / count, stages))
                              : count * work.microbatch / stages;
  return std::max(pipeline, count * work.largest);
}

PlanBounds findBounds(const Plan &plan) {
  RankWork ranks(plan);
  PlanBounds bounds;
  bounds.work = ranks.all / plan.topology.workersAtOnce(plan.threads);
  bounds.balance = std::max(bounds.work, ranks.heaviest);
  // A closed form speaks of the steady state, which has no bubble.
  bounds.bubble = bounds.balance;
  if (!isClosedForm(plan.costModel))
    bounds.bubble = std::max(bounds.balance, secondsOverFreeLinks(plan));
  bounds.links = PortLoad(plan).most();
  return bounds;
}

} // namespace pdc
