#include "compiler/plan/Choice.h"

#include "compiler/Error.h"
#include "compiler/plan/Partition.h"
#include "compiler/plan/PlanRowSearch.h"
#include "compiler/plan/Ways.h"
#include "compiler/schedule/RowSearch.h"
#include "compiler/schedule/Schedules.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

namespace pdc {

namespace {

/// Ways that differ by less than this part are played alike: sums of thousands of seconds differ by
/// their rounding and by how orders of equal runs meet on a link. The first of them, the simplest,
/// stands.
constexpr double kAlike = 1e-6;
/// Played to improve the cut of the best way further; each way before it gets what a plan by its
/// name does.
constexpr int64_t kRunsOfBest = 100'000;
/// Runs up to which rows are searched.
constexpr int64_t kMostSearchedRuns = 2'000;

/// Units up to which the cut of each way is improved, and by what part moving single units has made
/// a plan of more faster at most: ways that are slower by more than that stay as they are.
constexpr size_t kFewUnits = 500;
constexpr double kMostGain = 1.1;
/// So many ways in a row that are slower by more than that end the search among longer pipelines.
constexpr int kMostSlower = 2;

/// By the name of a way; and whether any was for want of memory.
struct Refusals {
  std::map<std::string, std::string> texts;
  bool lackMemory = false;

  void add(const std::string &way, const Error &error) {
    texts[way] = error.what();
    lackMemory |= dynamic_cast<const MemoryError *>(&error) != nullptr;
  }
};

class Chooser {
public:
  /// By name, ways that are known to be impossible, and why.
  Chooser(const PlanGraph &graph, const PlanRequest &request, const Refusals &refused = {})
      : graph(graph), request(request), refused(refused), ways(graph, request) {}
  void choose();
  /// What was chosen, with its transfers; nothing where they make it impossible: that is added to
  /// the refusals.
  std::optional<Planned> complete(Refusals &refusals) const;
  Planned chosen() const { return *best; }

private:
  void planStraight();
  void planChunked();
  void planSplit();
  void planEach(std::vector<Way> open);
  void planLongerAndLonger(std::vector<Way> open);
  void planSkipped();
  bool recomputes() const;
  void writeRows();
  double plan(const Way &way);
  void takePlanned();
  void improvePlanned();
  void searchBest();
  void take(Planned planned, const PlanRequest &way, const std::string &name);
  void forget(const Error &error);
  void improveBest();
  [[noreturn]] void throwRefusal() const;
  std::string takesTooLong(const std::string &ways) const;

  const PlanGraph &graph;
  const PlanRequest &request;
  Refusals refused;
  Ways ways;
  std::optional<Planned> best;
  PlanRequest bestWay;
  std::string bestName;
  std::vector<PlanCandidate> tried;
  std::string untried;
  std::vector<Way> skipped; ///< longer pipelines than `longest`, the last that was planned
  std::string longest;
  struct PlannedWay {
    Planned planned;
    PlanRequest way;
    std::string name;
    double seconds() const { return planned.plan.secondsPerMinibatch; }
  };
  std::vector<PlannedWay> planned; ///< not compared yet
  /// Planned without rows, which may turn out to hold more: the others wait for that case.
  std::vector<PlannedWay> unwritten;
};

std::string Chooser::takesTooLong(const std::string &ways) const {
  return ways + ": for " + std::to_string(graph.units.size()) + " units on " +
         std::to_string(request.workers) + " workers in " + std::to_string(request.microbatches) +
         " microbatches that takes too long";
}

void Chooser::take(Planned planned, const PlanRequest &way, const std::string &name) {
  double seconds = planned.plan.secondsPerMinibatch;
  auto listed = std::ranges::find(tried, name, &PlanCandidate::name);
  if (listed == tried.end())
    listed = tried.insert(tried.end(), {name, seconds, ""});
  listed->secondsPerMinibatch = seconds;
  if (!ways.areFew())
    unwritten.push_back({planned, way, name});
  if (best && seconds >= best->plan.secondsPerMinibatch * (1 - kAlike))
    return;
  best = std::move(planned);
  bestWay = way;
  bestName = name;
}

/// Its seconds; 0: refused.
double Chooser::plan(const Way &way) {
  PlanCandidate candidate{way.name, 0, ""};
  if (auto known = refused.texts.find(way.name); known != refused.texts.end()) {
    candidate.refusal = known->second;
  } else {
    try {
      Planner planner(graph, way.request, ways.areFew() ? kMostWrittenRuns : 0);
      planned.push_back({planner.make(), way.request, way.name});
      candidate.secondsPerMinibatch = planned.back().seconds();
    } catch (const Error &error) {
      candidate.refusal = error.what();
      refused.add(way.name, error);
    }
  }
  tried.push_back(candidate);
  return candidate.secondsPerMinibatch;
}

/// The longest pipeline of the simplest schedule says what is wrong with the request, unless
/// another way fits.
void Chooser::throwRefusal() const {
  if (tried.empty())
    throw Error("schedule " + request.schedule + " on " + std::to_string(request.workers) +
                " workers: no plan has a first stage of " + std::to_string(request.inputReplicas) +
                " replicas; --stages says those of each stage");
  const std::string &why = ways.areFew() ? tried.front().refusal : tried.back().refusal;
  if (refused.lackMemory)
    throw MemoryError(why);
  throw Error(why);
}

/// With cuts as good as those of a plan of that way by its name, so that none is faster than the
/// best that was tried; the fastest first, which show what is too slow for that.
void Chooser::improvePlanned() {
  double least = best ? best->plan.secondsPerMinibatch : std::numeric_limits<double>::infinity();
  std::vector<PlannedWay *> fastest;
  for (PlannedWay &one : planned)
    fastest.push_back(&one);
  std::ranges::stable_sort(fastest, {}, &PlannedWay::seconds);
  for (PlannedWay *one : fastest) {
    if (graph.units.size() > kFewUnits && one->seconds() > kMostGain * least)
      return;
    try {
      Planner planner(graph, one->way, ways.areFew() ? kMostWrittenRuns : 0);
      one->planned = planner.improve(one->planned);
    } catch (const Error &) { // It stays as it was.
    }
    least = std::min(least, one->seconds());
  }
}

/// Of the ways that were planned the best, unless one before is.
void Chooser::takePlanned() {
  improvePlanned();
  for (PlannedWay &one : planned)
    take(std::move(one.planned), one.way, one.name);
  planned.clear();
}

/// The rows of the best way, played in other orders.
void Chooser::searchBest() {
  const Plan &plan = best->plan;
  auto stages = static_cast<int64_t>(plan.stages.size());
  std::string name = bestName + ", searched";
  if (stages == 1 || stages * plan.schedule.microbatches > kMostSearchedRuns ||
      refused.texts.contains(name))
    return;
  Planner planner(graph, bestWay);
  Schedule rows = searchRowsOf(*best, planner);
  if (rows.name == nameOfSeed(rows.name))
    return tried.push_back({name, plan.secondsPerMinibatch, ""});
  try {
    take(planner.makeWith(best->stageOfUnit, rows), bestWay, name);
  } catch (const Error &error) {
    tried.push_back({name, 0, error.what()});
  }
}

/// Whether a stage of the way that was planned last does.
bool Chooser::recomputes() const {
  return std::ranges::any_of(planned.back().planned.plan.stages, &PlanStage::recompute);
}

/// Of many units on many workers a way takes seconds, the more stages the more of them: those with
/// few are planned first, and where some in a row are far slower than the best, longer pipelines
/// would wait longer still. Not so where they are slow because they recompute, or do not fit:
/// longer ones hold less.
void Chooser::planLongerAndLonger(std::vector<Way> open) {
  double least = std::numeric_limits<double>::infinity();
  for (int slower = 0; !open.empty() && slower < kMostSlower; open.pop_back()) {
    longest = open.back().name;
    const double seconds = plan(open.back());
    if (seconds == 0 || recomputes())
      continue;
    slower = seconds > kMostGain * least ? slower + 1 : 0;
    least = std::min(least, seconds);
  }
  std::ranges::move(open, std::back_inserter(skipped));
}

void Chooser::planSkipped() {
  for (const Way &way : std::exchange(skipped, {}))
    plan(way);
  takePlanned();
}

void Chooser::planEach(std::vector<Way> open) {
  if (!ways.areFew())
    planLongerAndLonger(std::move(open));
  else
    for (const Way &way : open)
      plan(way);
  takePlanned();
}

/// Its cut, then the order of its rows. A schedule by its name gets what each way does.
void Chooser::improveBest() {
  if (!ways.isAutomatic())
    return;
  best = Planner(graph, bestWay).improve(std::move(*best), kRunsOfBest);
  searchBest();
}

/// Several stages per rank, against the best with one.
void Chooser::planChunked() {
  double limit = best ? best->plan.secondsPerMinibatch : 0;
  bool straight = best.has_value();
  planEach(ways.chunked());
  if (!ways.leftOut().empty())
    untried = takesTooLong(ways.leftOut());
  if (best && ways.areFew() && (!straight || best->plan.secondsPerMinibatch < limit))
    improveBest();
}

/// Of many units on many workers, the other schedules on the best replicas alone.
void Chooser::planSplit() {
  for (const Way &way : ways.split(bestWay))
    plan(way);
  takePlanned();
}

/// The best way's rows do not fit: the next best takes its place, or what refuses it, which is
/// being handled, is the answer.
void Chooser::forget(const Error &error) {
  auto fits = [&](const PlannedWay &one) {
    return one.way.schedule != bestWay.schedule || one.way.replicas != bestWay.replicas;
  };
  auto refused = std::stable_partition(unwritten.begin(), unwritten.end(), fits);
  if (refused != unwritten.end())
    tried.push_back({refused->name + ", with its rows", 0, error.what()});
  unwritten.erase(refused, unwritten.end());
  if (unwritten.empty())
    planSkipped();
  if (unwritten.empty())
    throw;
  auto next = std::ranges::min_element(unwritten, {}, &PlannedWay::seconds);
  best = next->planned;
  bestWay = next->way;
  bestName = next->name;
}

/// The rows of what was chosen without them.
void Chooser::writeRows() {
  for (bool written = false; !written;) {
    auto stages = static_cast<int>(best->plan.stages.size());
    try {
      Schedule rows = Planner(graph, bestWay).computeRows(stages);
      if (!rows.ranks.empty())
        best = Planner(graph, bestWay).makeWith(best->stageOfUnit, rows);
      written = true;
    } catch (const Error &error) {
      forget(error);
    }
  }
  std::string without = ways.opensChunks() ? "several stages per device, " : "";
  if (ways.isAutomatic())
    without += "gpipe, moving single runs, ";
  if (!skipped.empty())
    without += "longer pipelines than " + longest + ", ";
  if (ways.hasStraight())
    without += "uneven replicas, ";
  untried = takesTooLong(without + "moving single units");
}

/// One stage per rank.
void Chooser::planStraight() {
  planEach(ways.straight());
  if (best && ways.areFew())
    improveBest();
}

void Chooser::choose() {
  if (ways.hasStraight())
    planStraight();
  planChunked();
  if (!best)
    throwRefusal();
  if (!ways.areFew()) {
    if (ways.isAutomatic() && ways.hasStraight() && best->plan.stages.size() > 1)
      planSplit();
    writeRows();
  }
  best->plan.candidates = tried;
  best->plan.untried = untried;
}

std::optional<Planned> Chooser::complete(Refusals &refusals) const {
  try {
    Planned completed = Planner(graph, bestWay).complete(*best);
    completed.plan.candidates = tried;
    completed.plan.untried = untried;
    return completed;
  } catch (const Error &error) {
    refusals.add(bestName, error);
    return std::nullopt;
  }
}

} // namespace

Planned chooseTogether(const PlanGraph &graph, const PlanRequest &request) {
  Chooser chooser(graph, request);
  chooser.choose();
  return chooser.chosen();
}

Planned chooseCompleted(const PlanGraph &graph, const PlanRequest &request) {
  for (Refusals refused;;) {
    Chooser chooser(graph, request, refused);
    chooser.choose();
    if (std::optional<Planned> completed = chooser.complete(refused))
      return std::move(*completed);
  }
}

} // namespace pdc
