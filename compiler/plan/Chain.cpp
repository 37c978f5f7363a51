#include "compiler/plan/Search.h"

#include "compiler/Error.h"
#include "compiler/plan/Cut.h"

#include <algorithm>
#include <numeric>

namespace pdc {

namespace {

/// What crosses one end of a part: bytes and messages, activations and gradients.
struct Crossing {
  int64_t bytes = 0, messages = 0;

  void add(const PlanValue &value, int64_t activations, int64_t gradients) {
    gradients = value.hasGradient ? gradients : 0;
    bytes += value.bytes * (activations + gradients);
    messages += activations + gradients;
  }
  double seconds(const Link &link) const {
    double transfer =
        link.bytesPerSecond > 0 ? static_cast<double>(bytes) / link.bytesPerSecond : 0;
    return transfer + static_cast<double>(messages) * link.latencySeconds;
  }
};

/// The part of the units from `first` to a fixed end, grown towards the front one unit at a time.
class Part {
public:
  explicit Part(const PlanGraph &graph)
      : graph(graph), made(graph.units.size()), read(graph.units.size()),
        temporaries(findTemporaries(graph)) {
    for (size_t value = 0; value < graph.values.size(); ++value) {
      made[graph.values[value].producer].push_back(value);
      for (int consumer : graph.values[value].consumers)
        read[consumer].push_back(value);
    }
  }

  void startAt(int end) {
    first = last = end;
    compute = forward = update = 0;
    gradientBytes = 0;
    in = out = {};
    memory = {};
    readers.assign(graph.values.size(), 0);
  }
  void grow(); ///< by the unit in front of it

  double compute = 0; ///< seconds per microbatch
  double forward = 0; ///< of them in the forward pass
  double update = 0;  ///< seconds per update
  int64_t gradientBytes = 0;
  Crossing in, out;

  double seconds(const Link &before, const Link &behind) const {
    return compute + in.seconds(before) + out.seconds(behind);
  }
  int start() const { return first; }
  int end() const { return last; }
  StageMemory bytes() const { return memory.with(in.bytes + out.bytes); }

private:
  const PlanGraph &graph;
  std::vector<std::vector<size_t>> made, read; ///< values by unit
  std::vector<int64_t> temporaries;            ///< by unit
  std::vector<int64_t> readers;                ///< by value: readers in the part, if it comes in
  int first = 0, last = 0;
  MemorySum memory;
};

void Part::grow() {
  int unit = --first;
  const PlanUnit &cost = graph.units[unit];
  compute += cost.forwardSeconds + cost.backwardInputSeconds + cost.backwardWeightSeconds;
  forward += cost.forwardSeconds;
  update += cost.updateSeconds;
  gradientBytes += cost.gradientBytes;
  memory.add(cost, temporaries[unit]);
  for (size_t index : made[unit]) {
    const PlanValue &value = graph.values[index];
    // It came in until now.
    if (readers[index])
      in.add(value, -1, -readers[index]);
    readers[index] = 0;
    int64_t later = std::ranges::count_if(value.consumers, [&](int user) { return user >= last; });
    if (later)
      out.add(value, 1, later);
  }
  for (size_t index : read[unit]) {
    in.add(graph.values[index], readers[index] ? 0 : 1, 1);
    ++readers[index];
  }
}

/// Stages in the order of the units: what the schedule keeps there, and how many replicas there
/// are, is known by the number of the stage.
class ChainCost : public StageCost {
public:
  ChainCost(const PlanGraph &graph, const ChainRequest &request) : request(request), part(graph) {}

  bool byUsed() const override { return true; }
  double depthBelow(int, double, int, int) const override { return 0; }
  double leastSeconds(int, int) const override { return 0; }

  void price(const Span &span, double, Below *, std::span<const int>, Prices &prices) override {
    if (part.end() != span.to || part.start() < span.from)
      part.startAt(span.to);
    while (part.start() > span.from)
      part.grow();
    prices.alone(1) = secondsAs(0);
    for (int used = 2; used <= request.stages; ++used)
      prices.stage(1, used) = secondsAs(used - 1);
  }

private:
  double secondsAs(int stage) const {
    const std::vector<int> &ranks = request.ranksOfStage[stage];
    double replicas = static_cast<double>(ranks.size());
    double perUpdate = part.update + reductionSeconds(request.topology, ranks, part.gradientBytes);
    double seconds = part.seconds(linkBehind(stage - 1), linkBehind(stage)) / replicas +
                     perUpdate / static_cast<double>(request.microbatches(stage));
    if (!request.recompute.must(stage) && fits(stage, false))
      return seconds;
    return request.recompute.may(stage) && fits(stage, true) ? seconds + part.forward / replicas
                                                             : kNever;
  }
  bool fits(int stage, bool recompute) const {
    StageDepth depth{request.versions(stage), request.slots(stage), request.split, stage > 0};
    return !request.memoryBytes || part.bytes().total(depth, recompute) <= request.memoryBytes;
  }
  Link linkBehind(int stage) const {
    return stage < 0 || stage + 1 >= request.stages
               ? Link{}
               : request.topology.linkBetween(request.ranksOfStage[stage].back(),
                                              request.ranksOfStage[stage + 1].front());
  }

  const ChainRequest &request;
  Part part;
};

} // namespace

std::vector<int> stageOfUnit(const Partition &partition, size_t units) {
  std::vector<int> result(units);
  int stage = 0;
  auto number = [&](auto &&self, const std::vector<StageGroup> &groups) -> void {
    for (const StageGroup &group : groups) {
      self(self, group.groups);
      for (int unit : group.units)
        result[unit] = stage;
      stage += group.groups.empty();
    }
  };
  number(number, partition.groups);
  return result;
}

std::optional<Partition> findChain(const PlanGraph &graph, const ChainRequest &request) {
  int units = static_cast<int>(graph.units.size());
  if (units < request.stages)
    throw Error("the model has " + std::to_string(units) + " units, which cannot fill " +
                std::to_string(request.stages) + " stages; use fewer workers");
  DownSets cuts = prefixes(graph);
  ChainCost cost(graph, request);
  Search search(cuts, cost, {request.stages}, true);
  Partition result;
  result.slowestSeconds = search.solve();
  if (result.slowestSeconds == kNever)
    return std::nullopt;
  result.groups = search.trace();
  result.cuts = cuts.count();
  return result;
}

} // namespace pdc
