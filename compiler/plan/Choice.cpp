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

namespace pdc {

namespace {

/// Ways that differ by less than this part are played alike: sums of thousands of seconds differ by
/// their rounding and by how orders of equal runs meet on a link. The first of them, the simplest,
/// stands.
constexpr double kAlike = 1e-6;
/// Units x workers, and runs, up to which every way is planned with its rows. Beyond, ways are
/// compared by what is known of their rows unwritten, the more exotic ones on the best replicas
/// only.
constexpr int64_t kMostPlaces = 100'000, kMostRuns = 50'000;
/// Played to improve the cut of the best way further; each way before it gets what a plan by its
/// name does.
constexpr int64_t kRunsOfBest = 100'000;
/// Runs up to which rows are searched.
constexpr int64_t kMostSearchedRuns = 2'000;

/// Units up to which the cut of each way is improved, and by what part moving single units has made
/// a plan of more faster at most: ways that are slower by more than that stay as they are.
constexpr size_t kFewUnits = 500;
constexpr double kMostGain = 1.1;

/// Stages per rank that are tried beside one, and runs (stages x microbatches) up to which they
/// are.
constexpr int kLeastChunks = 2, kMostChunks = 4;
constexpr int64_t kMostChunkedRuns = 5'000;

class Chooser {
public:
  /// By name, ways that are known to be impossible, and why.
  using Refusals = std::map<std::string, std::string>;

  Chooser(const PlanGraph &graph, const PlanRequest &request, const Refusals &refused = {})
      : graph(graph), request(request), refused(refused),
        small(isSmall(request.workers, kMostRuns)) {}
  void choose();
  /// What was chosen, with its transfers; nothing where they make it impossible: that is added to
  /// the refusals.
  std::optional<Planned> complete(Refusals &refusals) const;
  Planned chosen() const { return *best; }

private:
  void planStraight();
  void planSchedules();
  void planChunked();
  void planSplit();
  void writeRows();
  void planUneven();
  void plan(const PlanRequest &way, const std::string &name);
  void takePlanned();
  void improvePlanned();
  void searchBest();
  void take(Planned planned, const PlanRequest &way, const std::string &name);
  void forget(const Error &error);
  bool isSmall(int64_t stages, int64_t mostRuns) const;
  void improveBest();
  int chunksByHand() const;
  bool opensChunks() const;
  std::vector<int> replicasToTry() const;
  std::vector<int> chunksToTry(int replicas);
  void leaveOut(const std::string &stages, int replicas);
  std::string takesTooLong(const std::string &ways) const;

  const PlanGraph &graph;
  const PlanRequest &request;
  const Refusals refused;
  bool small;
  std::optional<Planned> best;
  PlanRequest bestWay;
  std::string bestName;
  std::vector<PlanCandidate> tried;
  std::string untried, tooMany;
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

bool Chooser::isSmall(int64_t stages, int64_t mostRuns) const {
  auto units = static_cast<int64_t>(graph.units.size());
  return units * stages <= kMostPlaces && stages * request.microbatches <= mostRuns;
}

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
  if (!small)
    unwritten.push_back({planned, way, name});
  if (best && seconds >= best->plan.secondsPerMinibatch * (1 - kAlike))
    return;
  best = std::move(planned);
  bestWay = way;
  bestName = name;
}

/// The first way says what is wrong with the request, unless another fits the memory.
void Chooser::plan(const PlanRequest &way, const std::string &name) {
  if (auto known = refused.find(name); known != refused.end())
    return tried.push_back({name, 0, known->second});
  try {
    planned.push_back({Planner(graph, way, small ? kMostWrittenRuns : 0).make(), way, name});
    tried.push_back({name, planned.back().seconds(), ""});
  } catch (const Error &error) {
    tried.push_back({name, 0, error.what()});
  }
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
      Planner planner(graph, one->way, small ? kMostWrittenRuns : 0);
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
      refused.contains(name))
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

/// Where PipeDream's search would put replicas, cut again for the schedule.
void Chooser::planUneven() {
  Topology topology = planHead(request).topology;
  if (topology.levels.size() != 1 || topology.levels[0].link.bytesPerSecond <= 0)
    return;
  PlanRequest way = request;
  way.schedule = schedules().front().name;
  std::string name = way.schedule + " on ";
  for (const StageGroup &group : findHierarchy(graph, {"ring-max", topology}).groups) {
    name += (way.replicas.empty() ? "" : "-") + std::to_string(group.replicas);
    way.replicas.push_back(group.replicas);
  }
  way.stages = static_cast<int>(way.replicas.size());
  bool even = std::ranges::count(way.replicas, way.replicas[0]) == way.stages;
  if (even || request.microbatches % way.replicas[0])
    return;
  way.microbatches = request.microbatches / way.replicas[0];
  plan(way, name);
}

void Chooser::planSchedules() {
  PlanRequest way = request;
  for (const ScheduleKind &kind : schedules()) {
    if (!kind.synchronous || kind.placement != StagePlacement::straight)
      continue;
    way.schedule = kind.name;
    plan(way, way.schedule);
    if (!small || request.workers == 1)
      break;
  }
}

/// Stages per rank that the request or its partition asks for; 0: neither does.
int Chooser::chunksByHand() const {
  int last = -1, units = static_cast<int>(graph.units.size());
  for (const auto &[node, stage] : request.assignment)
    last = std::max(last, stage);
  if (request.chunks || request.workers == 1 || last >= units || (last + 1) % request.workers)
    return request.chunks;
  return (last + 1) / request.workers;
}

/// Whether the request leaves open how many stages a rank has.
bool Chooser::opensChunks() const {
  return !request.chunks && request.workers > 1 && !request.stages && request.assignment.empty() &&
         request.recompute.stages.empty();
}

/// Replicas of each of several ranks: one, and where they are open what the devices and the
/// microbatches can be shared among.
std::vector<int> Chooser::replicasToTry() const {
  std::vector<int> replicas = {1};
  bool open = request.openReplicas && request.assignment.empty() && small;
  for (int count = 2; open && count <= request.workers / 2; ++count)
    if (request.workers % count == 0 && request.microbatches % count == 0)
      replicas.push_back(count);
  return replicas;
}

/// What takes too long with so many replicas.
void Chooser::leaveOut(const std::string &stages, int replicas) {
  std::string share = replicas > 1 ? " on " + std::to_string(replicas) + " replicas" : "";
  tooMany += (tooMany.empty() ? "" : ", ") + stages + " stages per device" + share;
}

/// Stages on each rank beside one, of ranks with so many replicas; what is given by hand alone.
std::vector<int> Chooser::chunksToTry(int replicas) {
  if (int asked = chunksByHand(); asked > 1)
    return {asked};
  std::vector<int> chunks;
  if (!small || !opensChunks())
    return chunks;
  for (int count = kLeastChunks; count <= kMostChunks; ++count) {
    int stages = request.workers / replicas * count;
    if (stages > static_cast<int>(graph.units.size()))
      break;
    if (!isSmall(stages, kMostChunkedRuns)) {
      leaveOut(chunks.empty() ? "several" : "more than " + std::to_string(chunks.back()), replicas);
      break;
    }
    chunks.push_back(count);
  }
  return chunks;
}

/// Its cut, then the order of its rows.
void Chooser::improveBest() {
  best = Planner(graph, bestWay).improve(std::move(*best), kRunsOfBest);
  searchBest();
}

/// Several stages per rank, against the best with one.
void Chooser::planChunked() {
  double limit = best ? best->plan.secondsPerMinibatch : 0;
  bool straight = best.has_value();
  for (int replicas : replicasToTry())
    for (int chunks : chunksToTry(replicas))
      for (const Way &way : chunkedWays(request, chunks, replicas))
        // Of what was asked for its refusal is an answer.
        if (chunksByHand() > 1 || way.sharesMicrobatches)
          plan(way.request, way.name);
  takePlanned();
  if (!tooMany.empty())
    untried = takesTooLong(tooMany);
  if (best && small && (!straight || best->plan.secondsPerMinibatch < limit))
    improveBest();
}

/// Of many units on many workers, the other schedules on the best replicas alone.
void Chooser::planSplit() {
  PlanRequest way = bestWay;
  std::string layout = bestWay.replicas.empty() ? "" : " on as many replicas";
  for (const ScheduleKind &kind : schedules())
    if (kind.rhythms && splitsBackward(kind)) {
      way.schedule = kind.name;
      plan(way, way.schedule + layout);
    }
  takePlanned();
}

/// The best way's rows do not fit: the next best takes its place, or what refuses it is the answer.
void Chooser::forget(const Error &error) {
  auto fits = [&](const PlannedWay &one) {
    return one.way.schedule != bestWay.schedule || one.way.replicas != bestWay.replicas;
  };
  auto refused = std::stable_partition(unwritten.begin(), unwritten.end(), fits);
  if (refused != unwritten.end())
    tried.push_back({refused->name + ", with its rows", 0, error.what()});
  unwritten.erase(refused, unwritten.end());
  if (unwritten.empty())
    throw error;
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
  untried = takesTooLong(std::string(opensChunks() ? "several stages per device, " : "") +
                         "gpipe, uneven replicas, moving single units and single runs");
}

/// One stage per rank.
void Chooser::planStraight() {
  planSchedules();
  if (request.openReplicas)
    for (const Way &way : replicatedWays(request))
      plan(way.request, way.name);
  if (request.openReplicas && small)
    planUneven();
  takePlanned();
  if (best && small)
    improveBest();
}

void Chooser::choose() {
  bool straight = chunksByHand() < 2;
  if (straight)
    planStraight();
  planChunked();
  if (!best)
    throw Error(tried.front().refusal);
  if (!small && straight && best->plan.stages.size() > 1)
    planSplit();
  if (!small)
    writeRows();
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
    refusals[bestName] = error.what();
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
  for (Chooser::Refusals refused;;) {
    Chooser chooser(graph, request, refused);
    chooser.choose();
    if (std::optional<Planned> completed = chooser.complete(refused))
      return std::move(*completed);
  }
}

} // namespace pdc
