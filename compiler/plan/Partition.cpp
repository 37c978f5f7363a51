#include "compiler/plan/Partition.h"

#include "compiler/Error.h"
#include "compiler/plan/Cut.h"

#include <algorithm>
#include <limits>

namespace pdc {

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

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
  Part(const PlanGraph &graph, int64_t microbatches)
      : graph(graph), microbatches(static_cast<double>(microbatches)), made(graph.units.size()),
        read(graph.units.size()) {
    for (size_t value = 0; value < graph.values.size(); ++value) {
      made[graph.values[value].producer].push_back(value);
      for (int consumer : graph.values[value].consumers)
        read[consumer].push_back(value);
    }
  }

  void startAt(int end) {
    last = end;
    compute = 0;
    in = out = {};
    memory = {};
    readers.assign(graph.values.size(), 0);
  }
  void growBy(int unit);

  double compute = 0; ///< seconds per microbatch
  Crossing in, out;

  double seconds(const Link &before, const Link &behind) const {
    return compute + in.seconds(before) + out.seconds(behind);
  }
  StageMemory bytes() const { return memory.with(in.bytes + out.bytes); }

private:
  const PlanGraph &graph;
  double microbatches;
  std::vector<std::vector<size_t>> made, read; ///< values by unit
  std::vector<int64_t> readers;                ///< by value: readers in the part, if it comes in
  int last = 0;
  MemorySum memory;
};

void Part::growBy(int unit) {
  const PlanUnit &cost = graph.units[unit];
  compute += cost.forwardSeconds + cost.backwardInputSeconds + cost.backwardWeightSeconds +
             cost.updateSeconds / microbatches;
  memory.add(cost);
  for (size_t index : made[unit]) {
    const PlanValue &value = graph.values[index];
    memory.add(value);
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

/// best[stage][end]: the slowest of the stages up to `stage`, that one ending before unit `end`.
struct Table {
  std::vector<std::vector<double>> best;
  std::vector<std::vector<int>> start;
};

Link linkBehind(const PartitionRequest &request, int stage) {
  return stage < 0 || stage + 1 >= request.stages ? Link{}
                                                  : request.topology.linkBetween(stage, stage + 1);
}

void fillColumn(Table &table, Part &part, int end, const PartitionRequest &request) {
  part.startAt(end);
  for (int first = end - 1; first >= 0; --first) {
    part.growBy(first);
    StageMemory bytes = part.bytes();
    for (int stage = 0; stage < request.stages; ++stage) {
      double before = stage ? table.best[stage - 1][first] : (first ? kNever : 0);
      if (before >= table.best[stage][end])
        continue;
      if (request.memoryBytes && bytes.total(request.versions(stage), request.slots(stage),
                                             request.split) > request.memoryBytes)
        continue;
      double slowest = std::max(
          before, part.seconds(linkBehind(request, stage - 1), linkBehind(request, stage)));
      if (slowest < table.best[stage][end]) {
        table.best[stage][end] = slowest;
        table.start[stage][end] = first;
      }
    }
  }
}

} // namespace

Partition findPartition(const PlanGraph &graph, const PartitionRequest &request) {
  int units = static_cast<int>(graph.units.size());
  if (units < request.stages)
    throw Error("the model has " + std::to_string(units) + " units, which cannot fill " +
                std::to_string(request.stages) + " stages; use fewer workers");
  Table table;
  table.best.assign(request.stages, std::vector<double>(units + 1, kNever));
  table.start.assign(request.stages, std::vector<int>(units + 1, -1));
  Part part(graph, request.microbatches);
  for (int end = 1; end <= units; ++end)
    fillColumn(table, part, end, request);

  Partition result;
  result.slowestSeconds = table.best[request.stages - 1][units];
  if (result.slowestSeconds == kNever)
    throw Error("no cut into " + std::to_string(request.stages) + " stages fits " +
                std::to_string(request.memoryBytes) +
                " bytes of memory per device; use more workers, fewer microbatches in flight or a smaller "
                "microbatch");
  result.stageOfUnit.resize(units);
  for (int stage = request.stages - 1, end = units; stage >= 0; --stage) {
    int first = table.start[stage][end];
    std::fill(result.stageOfUnit.begin() + first, result.stageOfUnit.begin() + end, stage);
    end = first;
  }
  return result;
}

} // namespace pdc
