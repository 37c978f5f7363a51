#include "compiler/plan/Search.h"

#include "compiler/Error.h"
#include "compiler/cost/ClosedForm.h"
#include "compiler/plan/Hierarchy.h"

#include <algorithm>
#include <cmath>

namespace pdc {

namespace {

std::vector<StageFormula> formulas(const HierarchyRequest &request) {
  std::vector<StageFormula> result;
  int below = 1;
  for (const Level &level : request.topology.levels) {
    result.emplace_back(findClosedForm(request.costModel), level.workers, level.link.bytesPerSecond,
                        below, request.compression);
    below = level.workers;
  }
  return result;
}

enum class Objective { seconds, bytes };

/// The closed forms over sums by cut.
class HierarchyCost : public StageCost {
public:
  HierarchyCost(const PlanGraph &graph, const DownSets &cuts, const HierarchyRequest &request,
                Objective objective);

  bool byUsed() const override { return objective == Objective::bytes || request.memoryBytes; }
  void price(const Span &span, double depth, Below *below, std::span<const int> replicas,
             Prices &prices) override;
  double depthBelow(int level, double depth, int left, int replicas) const override {
    return byLetter ? 0 : (depth + left * workersBelow[level]) / replicas;
  }
  double leastSeconds(int cut) const override {
    return objective == Objective::seconds ? seconds[cut] : 0;
  }

private:
  void priceAnyUse(const Span &span, Below *below, std::span<const int> replicas, Prices &prices);
  double bytes(const Span &span, double depth, int left, int replicas) const;

  const HierarchyRequest &request;
  Objective objective;
  bool byLetter; ///< memory as the released optimizer counts it
  std::vector<StageFormula> levels;
  std::vector<double> workersBelow; ///< by level: workers of a component of the level below
  std::vector<double> seconds, weights, crossing; ///< by cut
  std::vector<StageBytes> held;                   ///< by cut
};

HierarchyCost::HierarchyCost(const PlanGraph &graph, const DownSets &cuts,
                             const HierarchyRequest &request, Objective objective)
    : request(request), objective(objective), byLetter(request.costModel == "pipedream-code"),
      levels(formulas(request)), seconds(cuts.seconds(graph)) {
  double below = 1;
  for (const Level &level : request.topology.levels) {
    workersBelow.push_back(below);
    below *= level.workers;
  }
  for (int cut = 0; cut < cuts.count(); ++cut) {
    double bytes = 0;
    StageBytes sum;
    for (int unit = 0; unit < cuts.units; ++unit)
      if (cuts.has(cut, unit)) {
        bytes += static_cast<double>(graph.units[unit].gradientBytes);
        sum.add(graph.units[unit]);
      }
    weights.push_back(bytes);
    held.push_back(sum);
    crossing.push_back(cuts.crossingBytes(cut, graph));
  }
}

double HierarchyCost::bytes(const Span &span, double depth, int left, int replicas) const {
  StageBytes stage = held[span.to].minus(held[span.from]);
  if (byLetter)
    return std::ceil(static_cast<double>(left) / replicas) * (stage.weights + stage.kept);
  if (span.level)
    return 0;
  return stage.total(inFlight(depth + left, replicas), crossing[span.from] + crossing[span.to]);
}

void HierarchyCost::priceAnyUse(const Span &span, Below *below, std::span<const int> replicas,
                                Prices &prices) {
  double work = below ? below->seconds(span, 1, 1) : seconds[span.to] - seconds[span.from];
  double sync = weights[span.to] - weights[span.from];
  const StageFormula &formula = levels[span.level];
  for (int count : replicas) {
    prices.alone(count) = formula.alone(count, work, sync);
    prices.stage(count, count) =
        formula.stage(count, work, sync, crossing[span.from], crossing[span.to]);
  }
}

void HierarchyCost::price(const Span &span, double depth, Below *below,
                          std::span<const int> replicas, Prices &prices) {
  if (!byUsed())
    return priceAnyUse(span, below, replicas, prices);
  double sync = weights[span.to] - weights[span.from];
  const StageFormula &formula = levels[span.level];
  for (int count : replicas)
    for (int used = count; used <= prices.workers; ++used) {
      double held = bytes(span, depth, prices.workers - used, count);
      double inside =
          below ? below->seconds(span, count, used) : seconds[span.to] - seconds[span.from];
      double alone = formula.alone(count, inside, sync);
      double stage = formula.stage(count, inside, sync, crossing[span.from], crossing[span.to]);
      if (objective == Objective::bytes)
        alone = stage = below ? std::max(inside, held) : held;
      else if (held > static_cast<double>(request.memoryBytes))
        alone = stage = kNever;
      prices.stage(count, used) = stage;
      if (used == count)
        prices.alone(count) = alone;
    }
}

std::vector<int> workersOf(const Topology &topology) {
  std::vector<int> workers;
  for (const Level &level : topology.levels)
    workers.push_back(level.workers);
  return workers;
}

/// Inner steps that take about a second.
constexpr double kMostSteps = 3e9;
/// Below so many the first, coarse search is not worth its time.
constexpr double kFewSteps = 5e7;
constexpr int kCoarseCuts = 128;

DownSets chooseCuts(const PlanGraph &graph, const std::vector<int> &workers,
                    const HierarchyRequest &request) {
  auto fits = [&](int cuts) {
    return Search::effort(cuts, workers, request.straight) <= request.effort * kMostSteps;
  };
  DownSets cuts = findDownSets(graph, fits);
  int most = cuts.count();
  while (most > kCoarseCuts && !fits(most))
    most -= most / 8;
  return cuts.thinned(most, graph);
}

/// The best plan over these cuts, if it is better than `best`.
void improve(Partition &best, const PlanGraph &graph, const DownSets &cuts,
             const HierarchyRequest &request) {
  HierarchyCost cost(graph, cuts, request, Objective::seconds);
  Search search(cuts, cost, workersOf(request.topology), request.straight, best.slowestSeconds);
  double found = search.solve();
  if (found == kNever)
    return;
  best.slowestSeconds = found;
  best.groups = search.trace();
}

[[noreturn]] void refuseMemory(const PlanGraph &graph, const DownSets &cuts,
                               const HierarchyRequest &request) {
  HierarchyCost cost(graph, cuts, request, Objective::bytes);
  double least = Search(cuts, cost, workersOf(request.topology), request.straight).solve();
  if (least == kNever)
    throw Error("the model has " + std::to_string(graph.units.size()) +
                " units, which cannot fill " + std::to_string(request.topology.workers()) +
                " stages; use fewer workers or replicas");
  auto number = [](double bytes) { return std::to_string(static_cast<int64_t>(bytes)); };
  double most = static_cast<double>(request.memoryBytes);
  throw Error("no plan fits: a device has " + number(most) +
              " bytes of memory, the plan that needs least " + "takes " + number(least) +
              " bytes, " + number(least - most) +
              " bytes more; use more workers or a smaller minibatch");
}

} // namespace

void StageBytes::add(const PlanUnit &unit) {
  weights += static_cast<double>(unit.parameterBytes);
  fixed += static_cast<double>(unit.fixedBytes());
  kept += static_cast<double>(unit.stashBytes);
}

StageBytes StageBytes::minus(const StageBytes &other) const {
  return {weights - other.weights, fixed - other.fixed, kept - other.kept};
}

double StageBytes::total(double flight, double crossing) const {
  return fixed + flight * (weights + kept + 2 * crossing);
}

double inFlight(double behind, int replicas) { return 1 + std::ceil(behind / replicas - 1e-9); }

Partition findHierarchy(const PlanGraph &graph, const HierarchyRequest &request) {
  std::vector<int> workers = workersOf(request.topology);
  DownSets cuts = chooseCuts(graph, workers, request);
  Partition result;
  result.slowestSeconds = kNever;
  result.cuts = cuts.count();
  result.exact = cuts.all && Search::triesAllReplicas(workers, request.straight);
  if (Search::effort(cuts.count(), workers, request.straight) > kFewSteps)
    improve(result, graph, cuts.thinned(kCoarseCuts, graph), request);
  improve(result, graph, cuts, request);
  if (result.groups.empty())
    refuseMemory(graph, cuts, request);
  return result;
}

double dataParallelSeconds(const PlanGraph &graph, const HierarchyRequest &request) {
  double seconds = 0, weights = 0;
  for (const PlanUnit &unit : graph.units) {
    seconds += unit.forwardSeconds + unit.backwardInputSeconds + unit.backwardWeightSeconds +
               unit.updateSeconds;
    weights += static_cast<double>(unit.gradientBytes);
  }
  std::vector<StageFormula> levels = formulas(request);
  for (size_t level = 0; level < levels.size(); ++level)
    seconds = levels[level].alone(request.topology.levels[level].workers, seconds, weights);
  return seconds;
}

} // namespace pdc
