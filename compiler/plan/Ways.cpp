#include "compiler/plan/Ways.h"

#include "compiler/schedule/Schedules.h"

namespace pdc {

/// Ranks up to which the replicas of each are named.
static constexpr int kMostNamed = 16;

static std::string replicasOf(int ranks, int replicas) {
  if (ranks > kMostNamed)
    return std::to_string(ranks) + " stages of " + std::to_string(replicas);
  std::string text = std::to_string(replicas);
  for (int rank = 1; rank < ranks; ++rank)
    text += "-" + std::to_string(replicas);
  return text;
}

std::vector<Way> replicatedWays(const PlanRequest &request) {
  std::vector<Way> ways;
  for (int replicas = 2; replicas <= request.workers; ++replicas) {
    if (request.workers % replicas || request.microbatches % replicas)
      continue;
    Way way{"data parallelism", request};
    way.request.schedule = schedules().front().name;
    way.request.microbatches = request.microbatches / replicas;
    way.request.stages = request.workers / replicas;
    way.request.replicas.assign(way.request.stages, replicas);
    if (way.request.stages > 1)
      way.name = way.request.schedule + " on " + replicasOf(way.request.stages, replicas);
    ways.push_back(way);
  }
  return ways;
}

std::vector<Way> chunkedWays(const PlanRequest &request, int chunks, int replicas) {
  std::vector<Way> ways;
  int ranks = request.workers / replicas;
  for (const ScheduleKind &kind : schedules()) {
    bool loops = kind.placement == StagePlacement::loop;
    bool folds = kind.placement == StagePlacement::fold;
    if (!kind.synchronous || !(loops || (folds && chunks == 2)))
      continue;
    Way way{std::string(kind.name), request};
    way.request.schedule = kind.name;
    way.request.chunks = chunks;
    way.request.microbatches = request.microbatches / replicas;
    way.sharesMicrobatches = folds || way.request.microbatches % ranks == 0;
    if (loops)
      way.name += " in " + std::to_string(chunks) + " chunks";
    if (replicas > 1) {
      way.request.replicas.assign(ranks, replicas);
      way.name += " on " + replicasOf(ranks, replicas);
    }
    ways.push_back(way);
  }
  return ways;
}

} // namespace pdc
