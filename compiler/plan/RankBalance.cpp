#include "compiler/plan/RankBalance.h"

#include "compiler/plan/ChainPart.h"

#include <algorithm>
#include <utility>

namespace pdc {

namespace {

/// What the search may cost, in units that are added up; to begin a part clears a mark per value,
/// so many of which take as long as a unit.
constexpr int64_t kMostUnits = 300'000;
constexpr size_t kValuesPerUnit = 32;
/// Below this a gain is an error of rounding.
constexpr double kLeastGain = 1e-12;

class RankBalance {
public:
  RankBalance(const PlanGraph &graph, const ChainRequest &request, const std::vector<int> &stages);

  void run() {
    while (left > 0 && moveAny()) {
    }
  }
  std::vector<int> found() const;

private:
  /// Seconds of the heaviest rank, and what tells uneven ranks from even ones.
  using Value = std::pair<double, double>;

  double measure(int stage);
  Value value() const;
  bool moveAny();
  bool move(int first, int last, int units);

  const ChainRequest &request;
  std::vector<StageTerms> terms;
  ChainPart part;
  int64_t left = kMostUnits, unitsToBegin;
  std::vector<int> cuts; ///< by stage: its first unit; and behind the last
  std::vector<double> seconds;
  int ranks = 0;
  Value best;
};

RankBalance::RankBalance(const PlanGraph &graph, const ChainRequest &request,
                         const std::vector<int> &stages)
    : request(request), terms(termsOf(request)), part(graph, request.stages),
      unitsToBegin(static_cast<int64_t>(1 + (graph.values.size() + graph.gradients.size()) /
                                                kValuesPerUnit)),
      cuts(request.stages + 1), seconds(request.stages) {
  for (int stage : stages)
    ++cuts[stage + 1];
  for (int stage = 0; stage < request.stages; ++stage) {
    cuts[stage + 1] += cuts[stage];
    seconds[stage] = measure(stage);
    ranks = std::max(ranks, *std::ranges::max_element(terms[stage].ranks) + 1);
  }
  best = value();
}

std::vector<int> RankBalance::found() const {
  std::vector<int> stages;
  for (int stage = 0; stage < request.stages; ++stage)
    stages.resize(cuts[stage + 1], stage);
  return stages;
}

double RankBalance::measure(int stage) {
  part.startAt(cuts[stage + 1]);
  while (part.start() > cuts[stage])
    part.grow();
  left -= unitsToBegin + cuts[stage + 1] - cuts[stage];
  return secondsWith(part, part.bytes(), terms[stage], secondsWithout(part, terms[stage]));
}

RankBalance::Value RankBalance::value() const {
  std::vector<double> sums(ranks);
  for (int stage = 0; stage < request.stages; ++stage)
    for (int rank : terms[stage].ranks)
      sums[rank] += seconds[stage];
  Value value{0, 0};
  for (double sum : sums) {
    value.first = std::max(value.first, sum);
    value.second += sum * sum;
  }
  return value;
}

/// Moves the beginnings of neighbouring stages by some units, if that is better.
bool RankBalance::move(int first, int last, int units) {
  if (cuts[first] + units <= cuts[first - 1] || cuts[last] + units >= cuts[last + 1])
    return false;
  std::vector<double> before = seconds;
  for (int stage = first; stage <= last; ++stage)
    cuts[stage] += units;
  for (int stage = first - 1; stage <= last; ++stage)
    seconds[stage] = measure(stage);
  Value moved = value();
  bool heavier = moved.first > best.first * (1 + kLeastGain);
  bool lighter = moved.first < best.first * (1 - kLeastGain);
  if (lighter || (!heavier && moved.second < best.second * (1 - kLeastGain))) {
    best = moved;
    return true;
  }
  for (int stage = first; stage <= last; ++stage)
    cuts[stage] -= units;
  seconds = std::move(before);
  return false;
}

/// Single beginnings first; more together only where these change nothing.
bool RankBalance::moveAny() {
  bool moved = false;
  for (int length = 1; length < request.stages && !moved; ++length)
    for (int first = 1; first + length <= request.stages; ++first)
      for (int units : {1, -1, 2, -2})
        if (left > 0)
          moved |= move(first, first + length - 1, units);
  return moved;
}

} // namespace

std::vector<int> balanceRanks(const PlanGraph &graph, const ChainRequest &request,
                              const std::vector<int> &stageOfUnit) {
  RankBalance balance(graph, request, stageOfUnit);
  balance.run();
  return balance.found();
}

} // namespace pdc
