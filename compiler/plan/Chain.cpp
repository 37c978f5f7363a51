#include "compiler/plan/Partition.h"

#include "compiler/Error.h"
#include "compiler/plan/Cut.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <numeric>

namespace pdc {

namespace {

constexpr double kDoesNotFit = std::numeric_limits<double>::infinity();

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
  /// Whatever the schedule; no part that holds this one has less.
  int64_t leastBytes() const { return memory.with(0).total({}, true); }

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

/// What the schedule asks of a stage, by its number.
struct StageTerms {
  Link before, behind;
  double replicas = 1, microbatches = 1;
  StageDepth depth;
  int64_t memoryBytes = 0;
  bool mustRecompute = false, mayRecompute = true;
  std::vector<int> ranks;
  Link ring;    ///< of the sum over replicas
  int kind = 0; ///< the same for stages that a part costs the same, memory apart
};

std::vector<StageTerms> termsOf(const ChainRequest &request) {
  std::vector<StageTerms> terms(request.stages);
  for (int stage = 0; stage < request.stages; ++stage) {
    StageTerms &own = terms[stage];
    own.ranks = request.ranksOfStage[stage];
    own.replicas = static_cast<double>(own.ranks.size());
    own.microbatches = static_cast<double>(request.microbatches(stage));
    own.depth = {request.versions(stage), request.slots(stage), request.split, stage > 0};
    own.memoryBytes = request.memoryBytes(stage);
    own.mustRecompute = request.recompute.must(stage);
    own.mayRecompute = request.recompute.may(stage);
    if (stage > 0 && request.ranksOfStage[stage - 1] != own.ranks)
      own.before = terms[stage - 1].behind =
          linkBetweenStages(request.topology, request.ranksOfStage[stage - 1], own.ranks);
    own.ring = slowestOfRing(request.topology, own.ranks);
  }
  std::map<std::array<double, 8>, int> kinds;
  for (StageTerms &own : terms)
    own.kind =
        kinds
            .insert({{own.before.bytesPerSecond, own.before.latencySeconds,
                      own.behind.bytesPerSecond, own.behind.latencySeconds, own.ring.bytesPerSecond,
                      own.ring.latencySeconds, own.replicas, own.microbatches},
                     static_cast<int>(kinds.size())})
            .first->second;
  return terms;
}

/// With A(j, s) for the slowest of s stages that hold the units in front of j,
///
///     A(j, s) = min over i < j of max(A(i, s - 1), seconds of units i ... j - 1 as stage s - 1).
///
/// This is exact, since the cost of a stage depends on its two ends and its number alone. What is
/// above a limit is not looked at: a part whose work or memory alone is, any that holds it, and the
/// numbers of stages that leave too much work or too few units to those behind. Where anything
/// stays within the limit nothing is lost; else the limit grows.
class ChainSearch {
public:
  ChainSearch(const PlanGraph &graph, const ChainRequest &request);

  /// The slowest stage; infinite where nothing fits.
  double solve();
  std::vector<StageGroup> trace() const;

private:
  /// Numbers of stages.
  struct Range {
    int first, last;
  };

  size_t at(int cut, int stages) const {
    return static_cast<size_t>(cut) * (request.stages + 1) + stages;
  }
  double best() const { return slowest[at(units, request.stages)]; }
  void solveWithin(double least);
  Range possible(int cut) const;
  Range reached(int cut) const;
  double price();
  void extend(int from, int to, const Range &range);
  double secondsAs(const StageTerms &own) const;

  const ChainRequest &request;
  std::vector<StageTerms> terms;
  std::vector<const StageTerms *> kinds; ///< one stage of each
  Part part;
  int units;
  double work = 0, ranks = 0, mostReplicas = 1;
  int64_t mostMemory = 0;
  bool limited = false;           ///< in memory
  double limit = 0;               ///< seconds of a stage
  std::vector<double> workBehind; ///< by cut
  std::vector<double> slowest;    ///< by cut and stages
  std::vector<int> cutBefore;     ///< the last stage's beginning
  std::vector<Range> known;       ///< by cut: stages with an entry
  std::vector<double> prices;     ///< of the part, by kind
  StageMemory memory;             ///< of the part
};

ChainSearch::ChainSearch(const PlanGraph &graph, const ChainRequest &request)
    : request(request), terms(termsOf(request)), part(graph),
      units(static_cast<int>(graph.units.size())), workBehind(units + 1),
      slowest(static_cast<size_t>(units + 1) * (request.stages + 1)), cutBefore(slowest.size()),
      known(units + 1) {
  for (int unit = units; unit-- > 0;) {
    const PlanUnit &cost = graph.units[unit];
    workBehind[unit] = workBehind[unit + 1] + cost.forwardSeconds + cost.backwardInputSeconds +
                       cost.backwardWeightSeconds;
  }
  work = workBehind[0];
  for (const StageTerms &own : terms) {
    ranks += own.replicas;
    mostReplicas = std::max(mostReplicas, own.replicas);
    mostMemory = std::max(mostMemory, own.memoryBytes ? own.memoryBytes : INT64_MAX);
    limited |= own.memoryBytes > 0;
    kinds.resize(std::max(kinds.size(), static_cast<size_t>(own.kind) + 1));
    kinds[own.kind] = &own;
  }
  prices.resize(kinds.size());
}

/// From a little above the mean: a limit of all work and more leaves nothing out.
double ChainSearch::solve() {
  for (double least = 1.1 * work / ranks;; least *= 1.6) {
    solveWithin(least);
    if (best() < kDoesNotFit || least >= work)
      return best();
  }
}

/// Seconds of the part as each kind of stage, without recomputation: the least of them.
double ChainSearch::price() {
  double least = kDoesNotFit;
  for (size_t kind = 0; kind < kinds.size(); ++kind) {
    const StageTerms &own = *kinds[kind];
    double sum = ringSeconds(own.ring, own.replicas, part.gradientBytes);
    prices[kind] = part.seconds(own.before, own.behind) / own.replicas +
                   (part.update + sum) / own.microbatches;
    least = std::min(least, prices[kind]);
  }
  if (limited)
    memory = part.bytes();
  return least;
}

double ChainSearch::secondsAs(const StageTerms &own) const {
  auto fits = [&](bool recompute) {
    return !own.memoryBytes || memory.total(own.depth, recompute) <= own.memoryBytes;
  };
  if (!own.mustRecompute && fits(false))
    return prices[own.kind];
  return own.mayRecompute && fits(true) ? prices[own.kind] + part.forward / own.replicas
                                        : kDoesNotFit;
}

/// How many stages may stand in front of a cut: those behind hold a unit each, and no more work
/// than the limit allows.
ChainSearch::Range ChainSearch::possible(int cut) const {
  if (cut == units)
    return {request.stages, request.stages};
  auto behind = static_cast<int>(workBehind[cut] / (limit * mostReplicas) * (1 - 1e-9));
  return {std::max(1, request.stages - (units - cut)),
          std::min(cut, request.stages - std::max(1, behind))};
}

ChainSearch::Range ChainSearch::reached(int cut) const {
  Range range = possible(cut);
  while (range.first <= range.last && slowest[at(cut, range.first)] == kDoesNotFit)
    ++range.first;
  while (range.first <= range.last && slowest[at(cut, range.last)] == kDoesNotFit)
    --range.last;
  return range;
}

void ChainSearch::extend(int from, int to, const Range &range) {
  int first = std::max(range.first, known[from].first + 1);
  int last = std::min(range.last, known[from].last + 1);
  if (first > last || price() > limit)
    return;
  for (int stages = first; stages <= last; ++stages) {
    double before = slowest[at(from, stages - 1)];
    double &entry = slowest[at(to, stages)];
    if (before >= entry)
      continue;
    double seconds = std::max(before, secondsAs(terms[stages - 1]));
    if (seconds >= entry || seconds > limit)
      continue;
    entry = seconds;
    cutBefore[at(to, stages)] = from;
  }
}

void ChainSearch::solveWithin(double least) {
  limit = least < work ? least : std::numeric_limits<double>::max();
  std::ranges::fill(slowest, kDoesNotFit);
  slowest[at(0, 0)] = 0;
  known[0] = {0, 0};
  for (int to = 1; to <= units; ++to) {
    Range range = possible(to);
    part.startAt(to);
    while (part.start() > 0 && range.first <= range.last) {
      part.grow();
      if (part.compute > limit * mostReplicas || part.leastBytes() > mostMemory)
        break;
      extend(part.start(), to, range);
    }
    known[to] = reached(to);
  }
}

std::vector<StageGroup> ChainSearch::trace() const {
  std::vector<StageGroup> groups(request.stages);
  int end = units;
  for (int stages = request.stages; stages > 0; --stages) {
    int from = cutBefore[at(end, stages)];
    groups[stages - 1].units.resize(end - from);
    std::iota(groups[stages - 1].units.begin(), groups[stages - 1].units.end(), from);
    end = from;
  }
  return groups;
}

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
  ChainSearch search(graph, request);
  Partition result;
  result.slowestSeconds = search.solve();
  if (result.slowestSeconds == kDoesNotFit)
    return std::nullopt;
  result.groups = search.trace();
  result.cuts = units + 1;
  return result;
}

} // namespace pdc
