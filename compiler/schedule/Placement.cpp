#include "compiler/Error.h"
#include "compiler/schedule/Schedules.h"

#include <algorithm>

namespace pdc {

int Pipeline::ranks() const {
  int most = -1;
  for (const std::vector<int> &ranks : ranksOfStage)
    for (int rank : ranks)
      most = std::max(most, rank);
  return most + 1;
}

std::vector<int> Pipeline::stagesOfRank(int rank) const {
  std::vector<int> found;
  for (int stage = 0; stage < stages; ++stage)
    if (std::ranges::find(ranksOfStage[stage], rank) != ranksOfStage[stage].end())
      found.push_back(stage);
  return found;
}

Pipeline straightPipeline(int stages, int64_t microbatches) {
  return replicatedPipeline(std::vector<int>(std::max(stages, 0), 1), microbatches);
}

Pipeline replicatedPipeline(std::span<const int> replicas, int64_t microbatches) {
  Pipeline pipeline{static_cast<int>(replicas.size()), {}, microbatches};
  int rank = 0;
  for (int count : replicas) {
    std::vector<int> &ranks = pipeline.ranksOfStage.emplace_back();
    while (static_cast<int>(ranks.size()) < count)
      ranks.push_back(rank++);
  }
  return pipeline;
}

Pipeline placedPipeline(StagePlacement placement, std::span<const int> replicas, int chunks,
                        int64_t microbatches) {
  auto places = static_cast<int>(replicas.size());
  std::vector<std::vector<int>> ranksOfPlace = replicatedPipeline(replicas, 1).ranksOfStage;
  Pipeline pipeline{places * chunks, {}, microbatches};
  for (int stage = 0; stage < pipeline.stages; ++stage) {
    int round = stage / places, place = stage % places;
    if (placement == StagePlacement::fold && round % 2)
      place = places - 1 - place;
    pipeline.ranksOfStage.push_back(ranksOfPlace[place]);
  }
  return pipeline;
}

Pipeline placedPipeline(StagePlacement placement, int places, int chunks, int64_t microbatches,
                        int replicas) {
  return placedPipeline(placement, std::vector<int>(places, replicas), chunks, microbatches);
}

bool hasEqualReplicas(const Pipeline &pipeline) {
  return std::ranges::all_of(pipeline.ranksOfStage, [&](const std::vector<int> &ranks) {
    return ranks.size() == pipeline.ranksOfStage[0].size();
  });
}

Pipeline columnOf(const Pipeline &pipeline) {
  auto replicas = static_cast<int>(pipeline.ranksOfStage[0].size());
  int64_t found = pipeline.microbatches, below = found / replicas * replicas;
  if (found != below)
    throw Error("the " + std::to_string(replicas) + " replicas of each stage cannot share " +
                std::to_string(found) + " microbatches equally; use " +
                (below ? std::to_string(below) + " or " : "") + std::to_string(below + replicas));
  Pipeline column{pipeline.stages, {}, found / replicas};
  for (const std::vector<int> &ranks : pipeline.ranksOfStage)
    column.ranksOfStage.push_back({ranks[0] / replicas});
  return column;
}

void checkPlacement(const Pipeline &pipeline, StagePlacement placement, std::string_view schedule) {
  // Each place has its first stage before any has its second.
  std::vector<int> replicas;
  for (int ranks = 0;
       ranks < pipeline.ranks() && replicas.size() < static_cast<size_t>(pipeline.stages);)
    ranks += replicas.emplace_back(static_cast<int>(pipeline.ranksOfStage[replicas.size()].size()));
  auto places = static_cast<int>(replicas.size());
  int ranks = pipeline.ranks(), chunks = places ? pipeline.stages / places : 0;
  bool fits = places && chunks * places == pipeline.stages &&
              (placement != StagePlacement::fold || chunks == 2) &&
              placedPipeline(placement, replicas, chunks, 1).ranksOfStage == pipeline.ranksOfStage;
  if (fits)
    return;
  std::string expected = placement == StagePlacement::fold
                             ? "stages r and 2p-1-r on rank r of p"
                             : "stage s on rank s mod p, as many stages on each of p ranks";
  throw Error("schedule " + std::string(schedule) + " places " + expected + ", found " +
              std::to_string(pipeline.stages) + " stages on " + std::to_string(ranks) +
              " ranks placed otherwise");
}

Pipeline apartPipeline(const Pipeline &pipeline) {
  std::vector<int> replicas;
  for (const std::vector<int> &ranks : pipeline.ranksOfStage)
    replicas.push_back(static_cast<int>(ranks.size()));
  return replicatedPipeline(replicas, pipeline.microbatches);
}

} // namespace pdc
