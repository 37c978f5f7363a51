#include "compiler/plan/Cut.h"

#include "compiler/plan/Bounds.h"
#include "compiler/plan/Profile.h"
#include "compiler/schedule/Replicas.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

namespace pdc {

std::vector<Edge> findEdges(const PlanGraph &graph, const std::vector<int> &stageOfUnit) {
  std::vector<Edge> edges;
  auto add = [&](const PlanValue &value, Phase phase) {
    const int producer = stageOfUnit[value.producer];
    std::set<int> readers;
    for (int unit : value.consumers)
      readers.insert(stageOfUnit[unit]);
    readers.erase(producer);
    for (int reader : readers) {
      // Gradients of weights are summed in the earliest stage that has one of them.
      const bool isTurned = (phase == Phase::backward) != (reader < producer);
      edges.push_back({static_cast<int>(edges.size()), value.name, isTurned ? reader : producer,
                       isTurned ? producer : reader, phase, phase, value.bytes});
    }
  };
  for (const PlanValue &value : graph.values)
    add(value, Phase::forward);
  for (const PlanValue &gradient : graph.gradients)
    add(gradient, Phase::backward);
  return edges;
}

std::vector<bool> findSenders(const PlanGraph &graph, const std::vector<int> &stageOfUnit) {
  std::vector<const PlanValue *> gradients;
  for (const PlanValue &gradient : graph.gradients)
    gradients.push_back(&gradient);
  // Where a gradient's readers send is known before its own unit is asked.
  if (!std::ranges::is_sorted(gradients, {}, &PlanValue::producer))
    std::ranges::stable_sort(gradients, {}, &PlanValue::producer);
  std::vector<bool> sends(graph.units.size());
  for (const PlanValue *gradient : gradients)
    for (int consumer : gradient->consumers)
      if (sends[consumer] || stageOfUnit[consumer] < stageOfUnit[gradient->producer])
        sends[gradient->producer] = true;
  return sends;
}

std::vector<PlanStage> sumStages(const PlanGraph &graph, const std::vector<int> &stageOfUnit) {
  std::vector<PlanStage> stages(*std::ranges::max_element(stageOfUnit) + 1);
  for (size_t id = 0; id < stages.size(); ++id) {
    stages[id].id = static_cast<int>(id);
    stages[id].ranks = {static_cast<int>(id)};
  }
  std::vector<bool> sends = findSenders(graph, stageOfUnit);
  // Seconds of a microbatch and of an update while all cores compute.
  std::vector<double> beside(stages.size()), updatesBeside(stages.size());
  for (size_t i = 0; i < graph.units.size(); ++i) {
    const PlanUnit &unit = graph.units[i];
    PlanStage &stage = stages[stageOfUnit[i]];
    stage.forwardSeconds += unit.forwardSeconds;
    stage.backwardSeconds += unit.backwardInputSeconds + unit.backwardWeightSeconds;
    stage.backwardWeightSeconds +=
        unit.backwardWeightSeconds + (sends[i] ? 0 : unit.backwardInputSeconds);
    stage.updateSeconds += unit.updateSeconds;
    beside[stageOfUnit[i]] += unit.slowdown * (unit.forwardSeconds + unit.backwardInputSeconds +
                                               unit.backwardWeightSeconds);
    stage.parameterBytes += unit.parameterBytes;
    stage.gradientBytes += unit.gradientBytes;
    stage.stateBytes += unit.stateBytes;
    updatesBeside[stageOfUnit[i]] += unit.updateSlowdown * unit.updateSeconds;
  }
  for (const TiedWeight &tied : graph.tied)
    for (const auto &[stage, uses] : usesByStage(tied, stageOfUnit))
      stages[stage].gradientBytes += uncountedSums(tied, uses);
  auto ratio = [](double slow, double alone) {
    return alone > 0 ? std::clamp(slow / alone, 1.0, kMostSlowdown) : 1;
  };
  for (PlanStage &stage : stages) {
    stage.slowdown = ratio(beside[stage.id], stage.forwardSeconds + stage.backwardSeconds);
    stage.updateSlowdown = ratio(updatesBeside[stage.id], stage.updateSeconds);
  }
  return stages;
}

/// Of the microbatches of an update that a replica runs, the part that is not the first.
static double laterShare(const Schedule &schedule, int stage) {
  const auto all = static_cast<double>(microbatchesPerUpdate(schedule, stage));
  return std::max(0.0, 1 - static_cast<double>(schedule.replicas(stage)) / all);
}

void addUpdateRule(std::vector<PlanStage> &stages, const PlanGraph &graph,
                   const std::vector<int> &stageOfUnit, const Schedule &schedule) {
  for (size_t i = 0; i < graph.units.size(); ++i) {
    const PlanUnit &unit = graph.units[i];
    PlanStage &stage = stages[stageOfUnit[i]];
    if (schedule.versions[stage.id] > 1)
      stage.updateSeconds += (unit.versionSlowdown - 1) * unit.updateSeconds;
    const double added = laterShare(schedule, stage.id) * accumulationSeconds(unit);
    stage.backwardSeconds += added;
    stage.backwardWeightSeconds += added;
  }
}

std::vector<PlanStage> makeStages(const PlanGraph &graph, const std::vector<int> &stageOfUnit,
                                  std::span<const Edge> edges) {
  std::vector<PlanStage> stages = sumStages(graph, stageOfUnit);
  for (size_t i = 0; i < graph.units.size(); ++i) {
    const PlanUnit &unit = graph.units[i];
    PlanStage &stage = stages[stageOfUnit[i]];
    stage.units.push_back(unit.name);
    stage.nodes.insert(stage.nodes.end(), unit.nodes.begin(), unit.nodes.end());
  }
  for (const Edge &edge : edges)
    stages[edge.fromStage].sends.push_back({edge.tensor, edge.toStage, edge.bytes});
  return stages;
}

void addRecomputation(PlanStage &stage, bool sendsGradients) {
  stage.recompute = true;
  stage.backwardSeconds += stage.forwardSeconds;
  if (!sendsGradients)
    stage.backwardWeightSeconds += stage.forwardSeconds;
}

Link linkBetweenStages(const Topology &topology, const std::vector<int> &from,
                       const std::vector<int> &to) {
  int last = from.back(), first = to.front();
  Link link = topology.linkBetween(last, first);
  if (topology.ownLink(last, first) >= 0)
    return link;
  int size = 1, ports = 1;
  for (const Level &level : topology.levels) {
    ports = level.ports;
    if (last / size / level.workers == first / size / level.workers)
      break;
    size *= level.workers;
  }
  auto beside = [&](const std::vector<int> &ranks, int end) {
    return std::ranges::count_if(ranks, [&](int rank) { return rank / size == end / size; });
  };
  auto sharing = static_cast<double>(std::max(beside(from, last), beside(to, first))) / ports;
  link.bytesPerSecond /= std::max(1.0, sharing);
  return link;
}

Link slowestOfRing(const Topology &topology, const std::vector<int> &ranks) {
  Link slowest;
  for (size_t i = 0; ranks.size() > 1 && i < ranks.size(); ++i)
    if (Link link = topology.linkBetween(ranks[i], ranks[(i + 1) % ranks.size()]);
        i == 0 || link.bytesPerSecond < slowest.bytesPerSecond)
      slowest = link;
  return slowest;
}

double reductionSeconds(const Topology &topology, const std::vector<int> &ranks, int64_t bytes) {
  return ringSeconds(slowestOfRing(topology, ranks), static_cast<double>(ranks.size()), bytes);
}

double ringSeconds(const Link &slowest, double replicas, int64_t bytes) {
  if (replicas < 2)
    return 0;
  double moved = 2 * (replicas - 1) / replicas * static_cast<double>(bytes);
  double way = slowest.bytesPerSecond > 0 ? moved / slowest.bytesPerSecond : 0;
  double handling = slowest.handOverSeconds(moved) + slowest.takeSeconds(moved);
  // A bucket is handled while the next one is on its way, by processors: GPUs move messages
  // themselves.
  return 2 * slowest.latencySeconds + std::max(way, handling) +
         std::min(way, handling) / countBuckets("cpu", bytes);
}

/// What the runtime has room for (ExecutorOptions::bucketElements, ReplicaSums::kRemoteBuckets, of
/// which the compiler includes nothing).
static int64_t roomOfSums(std::string_view device) {
  return int64_t{device == "cuda" ? 32 : 4} << 20;
}

/// On processors the room is two buckets, of which one goes out while the other comes back; on
/// GPUs, where no thread moves them, one.
int64_t bucketBytes(std::string_view device) {
  return device == "cuda" ? roomOfSums(device) : roomOfSums(device) / 2;
}

int64_t reductionBytes(std::string_view device, const PlanStage &stage) {
  const int64_t bytes = std::min(stage.gradientBytes + stage.stateBytes, roomOfSums(device));
  return stage.replicas > 1 ? 2 * bytes + 16 * (stage.replicas + 1) : 0;
}

int countBuckets(std::string_view device, int64_t gradientBytes) {
  // So many show how much of a sum is hidden: more cost the simulator's time.
  constexpr int64_t most = 16;
  const int64_t each = bucketBytes(device);
  return static_cast<int>(std::clamp((gradientBytes + each - 1) / each, int64_t{1}, most));
}

double sumHandlingSeconds(const Topology &topology, const PlanStage &stage) {
  double bytes =
      2.0 * (stage.replicas - 1) / stage.replicas * static_cast<double>(stage.gradientBytes);
  Link ring = slowestOfRing(topology, stage.ranks);
  return ring.handOverSeconds(bytes) + ring.takeSeconds(bytes);
}

/// What is left of a sum over replicas behind the backward pass that makes its buckets one after
/// the other: at least the last of them. What the rank spends on moving the others makes the pass
/// longer. Between GPUs nothing of it is hidden where the pass ends in a message to the stage
/// before (Executor::maySumEarly).
static double exposedSeconds(const Plan &plan, const PlanStage &stage, bool split) {
  const Topology &topology = plan.topology;
  double sum = reductionSeconds(topology, stage.ranks, stage.gradientBytes);
  if (plan.device == "cuda" && !split && stage.id > 0)
    return sum;
  double pass = split ? stage.backwardWeightSeconds : stage.backwardSeconds;
  const int count = countBuckets(plan.device, stage.gradientBytes);
  double buckets = count, hidden = (buckets - 1) / buckets;
  double handling = hidden * sumHandlingSeconds(topology, stage);
  double last = reductionSeconds(topology, stage.ranks, stage.gradientBytes / count);
  return handling + std::max(last, sum - pass * hidden - handling);
}

/// A rank hands its messages over behind the run that makes them and takes those that come in front
/// of the run that reads them.
static void addHandling(const Edge &edge, const Link &link, PlayCosts &costs) {
  auto part = [&](int stage, Phase phase) -> double & {
    StageSeconds &seconds = costs.stages[stage];
    return phase == Phase::forward ? seconds.forward : seconds.backwardInput;
  };
  auto bytes = static_cast<double>(edge.bytes);
  part(edge.fromStage, edge.producer) += link.handOverSeconds(bytes);
  part(edge.toStage, edge.consumer) += link.takeSeconds(bytes);
}

StageSeconds runSeconds(const PlanStage &stage) {
  return {stage.forwardSeconds, stage.backwardSeconds - stage.backwardWeightSeconds,
          stage.backwardWeightSeconds, stage.updateSeconds, stage.forwardSeconds};
}

Link linkOf(const Plan &plan, const Edge &edge) {
  return linkBetweenStages(plan.topology, plan.schedule.ranksOfStage[edge.fromStage],
                           plan.schedule.ranksOfStage[edge.toStage]);
}

/// Replicas of one stage that a replica of the other takes turns with, where each has a port of its
/// own into the lowest level: as if all their messages were on the way at a time, which is a bound.
/// It is taken for the whole edge from its nearest pair, as linkBetweenStages is, which knows of
/// ports that several replicas share.
static double shareOfPort(const Plan &plan, const Edge &edge) {
  const std::vector<int> &from = plan.schedule.ranksOfStage[edge.fromStage];
  const std::vector<int> &to = plan.schedule.ranksOfStage[edge.toStage];
  const Topology &topology = plan.topology;
  const int sender = from.back(), receiver = to.front();
  if (topology.levels.empty() || topology.ownLink(sender, receiver) >= 0)
    return 1;
  const Level &lowest = topology.levels.front();
  if (sender / lowest.workers != receiver / lowest.workers)
    return 1;
  const size_t turns = std::max(from.size(), to.size()) / std::gcd(from.size(), to.size());
  return std::max(1.0, static_cast<double>(turns) / lowest.ports);
}

PlayCosts playCosts(const Plan &plan) {
  PlayCosts costs;
  for (const PlanStage &stage : plan.stages)
    costs.stages.push_back(runSeconds(stage));
  std::vector<bool> split = findSplitStages(plan.schedule);
  for (const PlanStage &stage : plan.stages)
    costs.reductions.push_back(exposedSeconds(plan, stage, split[stage.id]));
  for (const Edge &edge : plan.edges) {
    const Link link = linkOf(plan, edge);
    if (!plan.schedule.shareRanks(edge.fromStage, edge.toStage))
      addHandling(edge, link, costs);
    double bytes = static_cast<double>(edge.bytes) * shareOfPort(plan, edge);
    costs.edges.push_back(link.latencySeconds +
                          (link.bytesPerSecond > 0 ? bytes / link.bytesPerSecond : 0));
    costs.posted.push_back(edge.bytes > kEagerBytes);
  }
  return costs;
}

} // namespace pdc
