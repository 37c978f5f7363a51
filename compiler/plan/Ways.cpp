#include "compiler/plan/Ways.h"

#include "compiler/plan/Hierarchy.h"
#include "compiler/plan/PlannedRows.h"
#include "compiler/plan/Planner.h"

#include <algorithm>

namespace pdc {

namespace {

/// Units x workers, and runs, up to which every way is planned with its rows. Beyond, ways are
/// compared by what is known of their rows unwritten, the more exotic ones on the best replicas
/// only.
constexpr int64_t kMostPlaces = 100'000, kMostRuns = 50'000;
/// Stages per rank that are tried beside one, and runs (stages x microbatches) up to which they
/// are.
constexpr int kLeastChunks = 2, kMostChunks = 4;
constexpr int64_t kMostChunkedRuns = 5'000;
/// Ranks up to which the replicas of each are named.
constexpr size_t kMostNamed = 16;
/// Workers up to which every way to share them among two stages is open.
constexpr int kMostSplit = 16;
/// Units up to which `auto` tries them, and replicas of each schedule: beyond, each plan takes long
/// and only the simplest one is tried on replicas.
constexpr size_t kMostShared = 500;

/// As in 3-1; of many stages how many in turn have as many, as in "1 stage of 2, 39 stages of 1".
std::string shortTextOf(const std::vector<int> &replicas) {
  if (replicas.size() <= kMostNamed)
    return textOf(replicas);
  std::string text;
  for (auto first = replicas.begin(); first != replicas.end();) {
    auto end = std::find_if(first, replicas.end(), [&](int count) { return count != *first; });
    text += (text.empty() ? "" : ", ") + std::to_string(end - first) +
            (end - first == 1 ? " stage of " : " stages of ") + std::to_string(*first);
    first = end;
  }
  return text;
}

} // namespace

std::string textOf(const std::vector<int> &replicas) {
  std::string text;
  for (int count : replicas)
    text += (text.empty() ? "" : "-") + std::to_string(count);
  return text;
}

bool opensWays(const PlanRequest &request) {
  return request.schedule == "auto" || (request.openReplicas && !isFileOfRows(request.schedule));
}

Ways::Ways(const PlanGraph &graph, const PlanRequest &request)
    : graph(graph), request(request),
      sums(isAutomatic() || findSchedule(request.schedule).sumsMicrobatches),
      few(isSmall(request.workers, kMostRuns)),
      simplestShared(isAutomatic() && graph.units.size() > kMostShared) {
  if (simplestShared && few && request.openReplicas && request.workers > 1)
    tooMany = "replicas under other schedules than " + std::string(schedules().front().name);
}

bool Ways::isSmall(int64_t stages, int64_t mostRuns) const {
  auto units = static_cast<int64_t>(graph.units.size());
  return units * stages <= kMostPlaces && stages * (sums ? request.microbatches : 1) <= mostRuns;
}

/// All synchronous ones (`auto`), or the one that the request names.
std::vector<const ScheduleKind *> Ways::schedulesOf(bool straight) const {
  std::vector<const ScheduleKind *> kinds;
  for (const ScheduleKind &kind : schedules())
    if ((kind.placement == StagePlacement::straight) == straight &&
        (isAutomatic() ? kind.synchronous : kind.name == request.schedule))
      kinds.push_back(&kind);
  return kinds;
}

bool Ways::hasStraight() const {
  return !schedulesOf(true).empty() && (!isAutomatic() || chunksByHand() < 2);
}

/// Each replica of the first stage takes its part of the microbatches, or one of its own where an
/// update has one. Nothing where they cannot.
std::optional<PlanRequest> Ways::withReplicas(const ScheduleKind &kind,
                                              const std::vector<int> &replicas) const {
  const bool isOther = request.inputReplicas && request.inputReplicas != replicas[0];
  const bool isUneven =
      std::ranges::count(replicas, replicas[0]) != static_cast<int64_t>(replicas.size());
  if (isOther || (isUneven && request.verticalSync) ||
      (kind.sumsMicrobatches && request.microbatches % replicas[0]))
    return std::nullopt;
  PlanRequest way = request;
  way.schedule = kind.name;
  way.microbatches = kind.sumsMicrobatches ? request.microbatches / replicas[0] : 1;
  way.stages = static_cast<int>(replicas.size());
  way.replicas = replicas;
  return way;
}

/// One stage has the same rows under all schedules but for its weight gradients.
std::vector<Way> Ways::replicated(const ScheduleKind &kind) const {
  std::vector<Way> ways;
  const bool isSimplest = kind.name == schedules().front().name;
  const int fewest = isAutomatic() && isSimplest ? 1 : 2;
  for (int replicas = 2; replicas * fewest <= request.workers; ++replicas) {
    if (request.workers % replicas)
      continue;
    const std::vector<int> each(request.workers / replicas, replicas);
    if (std::optional<PlanRequest> way = withReplicas(kind, each))
      ways.push_back(
          {each.size() > 1 ? way->schedule + " on " + shortTextOf(each) : "data parallelism", *way,
           way->stages});
  }
  return ways;
}

/// Two stages that share the workers in every way, and where PipeDream's search, which knows one
/// level, would put replicas.
std::vector<std::vector<int>> Ways::unevenReplicas() const {
  std::vector<std::vector<int>> shares;
  for (int first = 1; first < request.workers; ++first)
    if ((request.workers <= kMostSplit && !simplestShared) || first == request.inputReplicas)
      shares.push_back({first, request.workers - first});
  Topology topology = planHead(request).topology;
  if (topology.levels.size() == 1 && topology.levels[0].link.bytesPerSecond > 0) {
    std::vector<int> searched;
    for (const StageGroup &group : findHierarchy(graph, {"ring-max", topology}).groups)
      searched.push_back(group.replicas);
    if (std::ranges::find(shares, searched) == shares.end())
      shares.push_back(searched);
  }
  std::erase_if(shares, [](const std::vector<int> &replicas) {
    return std::ranges::count(replicas, replicas[0]) == static_cast<int64_t>(replicas.size());
  });
  return shares;
}

std::vector<Way> Ways::uneven() const {
  std::vector<Way> ways;
  const std::vector<std::vector<int>> shares = unevenReplicas();
  for (const ScheduleKind *kind : schedulesOf(true)) {
    for (const std::vector<int> &replicas : shares)
      if (std::optional<PlanRequest> way = withReplicas(*kind, replicas))
        ways.push_back({way->schedule + " on " + shortTextOf(replicas), *way, way->stages});
    if (simplestShared)
      break;
  }
  return ways;
}

/// Those with a unit for each stage; where there are none all of them, whose refusal is the answer.
std::vector<Way> Ways::withUnits(std::vector<Way> ways) const {
  auto isTooLong = [&](const Way &way) {
    return request.assignment.empty() && way.stages > static_cast<int>(graph.units.size());
  };
  if (!std::ranges::all_of(ways, isTooLong))
    std::erase_if(ways, isTooLong);
  return ways;
}

std::vector<Way> Ways::straight() const {
  std::vector<Way> ways, shared;
  for (const ScheduleKind *kind : schedulesOf(true)) {
    PlanRequest way = request;
    way.schedule = kind->name;
    if (request.inputReplicas < 2)
      ways.push_back({way.schedule, way, request.stages ? request.stages : request.workers});
    const bool isSimplest = kind->name == schedules().front().name;
    if (request.openReplicas && (isSimplest || !simplestShared))
      std::ranges::move(replicated(*kind), std::back_inserter(shared));
    if (!few || request.workers == 1)
      break;
  }
  if (request.openReplicas && few)
    std::ranges::move(uneven(), std::back_inserter(shared));
  std::ranges::move(shared, std::back_inserter(ways));
  return withUnits(std::move(ways));
}

/// Stages per rank that the request, its schedule or its partition asks for; 0: none does.
int Ways::chunksByHand() const {
  if (!isAutomatic() && !request.chunks && schedulesOf(true).empty())
    return kLeastChunks;
  int last = -1, units = static_cast<int>(graph.units.size());
  for (const auto &[node, stage] : request.assignment)
    last = std::max(last, stage);
  if (request.chunks || request.workers == 1 || last >= units || (last + 1) % request.workers)
    return request.chunks;
  return (last + 1) / request.workers;
}

bool Ways::opensChunks() const {
  return isAutomatic() && !request.chunks && request.workers > 1 && !request.stages &&
         request.assignment.empty() && request.recompute.stages.empty();
}

/// Replicas of each of several ranks: one, and where they are open what the devices and the
/// microbatches can be shared among.
std::vector<int> Ways::replicasToTry() const {
  std::vector<int> replicas = {1};
  bool open = request.openReplicas && request.assignment.empty() && (few || !isAutomatic());
  for (int count = 2; open && count <= request.workers / 2; ++count)
    if (request.workers % count == 0 && request.microbatches % count == 0)
      replicas.push_back(count);
  return replicas;
}

/// What takes too long with so many replicas.
void Ways::leaveOut(const std::string &stages, int replicas) {
  std::string share = replicas > 1 ? " on " + std::to_string(replicas) + " replicas" : "";
  tooMany += (tooMany.empty() ? "" : ", ") + stages + " stages per device" + share;
}

/// Stages on each rank beside one, of ranks with so many replicas; what is given by hand alone.
std::vector<int> Ways::chunksToTry(int replicas) {
  if (int asked = chunksByHand(); asked > 1 || !isAutomatic())
    return {asked};
  std::vector<int> chunks;
  if (!few || !opensChunks())
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

/// A schedule that refuses so many microbatches is left out, unless its refusal is an answer to
/// what was asked for.
std::vector<Way> Ways::inChunks(int chunks, int replicas) const {
  std::vector<Way> ways;
  const int ranks = request.workers / replicas;
  const bool isAsked = !isAutomatic() || chunksByHand() > 1;
  for (const ScheduleKind *kind : schedulesOf(false)) {
    const bool loops = kind->placement == StagePlacement::loop;
    if (isAutomatic() && !loops && chunks != kLeastChunks)
      continue;
    std::optional<PlanRequest> way = withReplicas(*kind, std::vector<int>(ranks, replicas));
    if (!way || (loops && !isAsked && way->microbatches % ranks))
      continue;
    way->chunks = chunks;
    way->stages = request.stages;
    std::string name(kind->name);
    if (loops)
      name += " in " + std::to_string(chunks) + " chunks";
    if (replicas > 1)
      name += " on " + shortTextOf(way->replicas);
    else
      way->replicas = request.replicas;
    ways.push_back({name, std::move(*way), ranks * chunks});
  }
  return ways;
}

std::vector<Way> Ways::chunked() {
  std::vector<Way> ways;
  if (!isAutomatic() && hasStraight())
    return ways;
  for (int replicas : replicasToTry())
    for (int chunks : chunksToTry(replicas))
      std::ranges::move(inChunks(chunks, replicas), std::back_inserter(ways));
  return withUnits(std::move(ways));
}

std::vector<Way> Ways::split(const PlanRequest &way) const {
  std::vector<Way> ways;
  for (const ScheduleKind *kind : schedulesOf(true))
    if (kind->rhythms && splitsBackward(*kind)) {
      ways.push_back({std::string(kind->name), way, way.stages});
      ways.back().request.schedule = kind->name;
      if (!way.replicas.empty())
        ways.back().name += " on as many replicas";
    }
  return ways;
}

} // namespace pdc
