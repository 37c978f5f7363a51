#include "compiler/plan/ChainPart.h"

#include "compiler/Error.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace pdc {

namespace {

/// Cuts that are looked at first, and of how many units each is one at least.
constexpr int kFewCutsPerStage = 8, kUnitsPerFewCut = 4;
/// A limit that is a stage's own seconds must not leave out that stage: its share of the work,
/// times the replicas, may be less than the work.
constexpr double kShareRounding = 1e-9;

/// With A(j, s) for the slowest of s stages that hold the units in front of j,
///
///     A(j, s) = min over i < j of max(A(i, s - 1), seconds of units i ... j - 1 as stage s - 1).
///
/// This is exact, since the cost of a stage depends on its two ends and its number alone. What is
/// above a limit is not looked at: a part whose work or memory alone is, any that holds it, and the
/// numbers of stages that leave too much work or too few units to those behind. Where anything
/// stays within the limit nothing is lost; else the limit grows. Of many units a few cuts are
/// looked at first: the slowest stage of the best of them is a limit for all.
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
  /// Of all replicas within the limit, at most.
  double mostWork() const { return limit * mostReplicas * (1 + kShareRounding); }
  bool openFewCuts();
  double solveOpen();
  void solveWithin(double mostSeconds);
  Range possible(int cut) const;
  Range reached(int cut) const;
  double price();
  void extend(int from, int to, const Range &range);

  const PlanGraph &graph;
  const ChainRequest &request;
  std::vector<StageTerms> terms;
  std::vector<const StageTerms *> kinds; ///< one stage of each
  ChainPart part;
  int units;
  double work = 0, ranks = 0, mostReplicas = 1;
  int64_t mostMemory = 0;
  bool limited = false;           ///< in memory
  double limit = 0;               ///< seconds of a stage
  std::vector<bool> open;         ///< by cut: it is looked at
  std::vector<double> workBehind; ///< by cut
  std::vector<double> slowest;    ///< by cut and stages
  std::vector<int> cutBefore;     ///< the last stage's beginning
  std::vector<Range> known;       ///< by cut: stages with an entry
  std::vector<double> prices;     ///< of the part, by kind
  StageMemory memory;             ///< of the part
};

ChainSearch::ChainSearch(const PlanGraph &graph, const ChainRequest &request)
    : graph(graph), request(request), terms(termsOf(request)), part(graph, request.stages),
      units(static_cast<int>(graph.units.size())), open(units + 1, true), workBehind(units + 1),
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

double ChainSearch::solve() {
  if (!std::isfinite(work))
    return kDoesNotFit;
  const bool isFew = openFewCuts();
  double found = solveOpen();
  if (!isFew)
    return found;
  open.assign(units + 1, true);
  if (found == kDoesNotFit)
    return solveOpen();
  solveWithin(found);
  return best() < kDoesNotFit ? best() : solveOpen();
}

/// Of each of so many equal parts of the work, in front of and in the middle of stages, the cut
/// that the fewest bytes cross. False where that leaves out too little to be worth it.
bool ChainSearch::openFewCuts() {
  const int parts = kFewCutsPerStage * request.stages;
  if (parts > units / kUnitsPerFewCut || work <= 0)
    return false;
  std::vector<int64_t> crossing(units + 1);
  for (const PlanValue &value : graph.values)
    if (!value.consumers.empty()) {
      crossing[value.producer + 1] += value.bytes;
      crossing[*std::ranges::max_element(value.consumers) + 1] -= value.bytes;
    }
  std::partial_sum(crossing.begin(), crossing.end(), crossing.begin());
  std::vector<int> least(parts, -1);
  for (int cut = 1; cut < units; ++cut) {
    const double share = (work - workBehind[cut]) / work;
    int &best = least[std::clamp(static_cast<int>(share * parts), 0, parts - 1)];
    if (best < 0 || crossing[cut] < crossing[best])
      best = cut;
  }
  open.assign(units + 1, false);
  open[0] = open[units] = true;
  for (int cut : least)
    if (cut > 0)
      open[cut] = true;
  return true;
}

/// From a little above the mean: a limit of all work and more leaves nothing out.
double ChainSearch::solveOpen() {
  for (double least = 1.1 * work / ranks;; least *= 1.6) {
    solveWithin(least < work ? least : std::numeric_limits<double>::max());
    if (best() < kDoesNotFit || least >= work)
      return best();
  }
}

/// Seconds of the part as each kind of stage, without recomputation: the least of them.
double ChainSearch::price() {
  double least = kDoesNotFit;
  for (size_t kind = 0; kind < kinds.size(); ++kind) {
    prices[kind] = secondsWithout(part, *kinds[kind]);
    least = std::min(least, prices[kind]);
  }
  if (limited)
    memory = part.bytes();
  return least;
}

/// How many stages may stand in front of a cut: they and those behind hold a unit each, and no more
/// work than the limit allows.
ChainSearch::Range ChainSearch::possible(int cut) const {
  if (cut == units)
    return {request.stages, request.stages};
  auto needed = [&](double part) {
    return std::max(1, static_cast<int>(std::ceil(part / mostWork())));
  };
  return {std::max(needed(work - workBehind[cut]), request.stages - (units - cut)),
          std::min(cut, request.stages - needed(workBehind[cut]))};
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
    const StageTerms &own = terms[stages - 1];
    double seconds = std::max(before, secondsWith(part, memory, own, prices[own.kind]));
    if (seconds >= entry || seconds > limit)
      continue;
    entry = seconds;
    cutBefore[at(to, stages)] = from;
  }
}

void ChainSearch::solveWithin(double mostSeconds) {
  limit = mostSeconds;
  std::ranges::fill(slowest, kDoesNotFit);
  slowest[at(0, 0)] = 0;
  known[0] = {0, 0};
  for (int to = 1; to <= units; ++to) {
    if (!open[to])
      continue;
    Range range = possible(to);
    part.startAt(to);
    while (part.start() > 0 && range.first <= range.last) {
      part.grow();
      if (part.compute > mostWork() || part.leastBytes() > mostMemory)
        break;
      if (open[part.start()])
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
