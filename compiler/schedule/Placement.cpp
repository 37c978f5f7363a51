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

Pipeline placedPipeline(StagePlacement placement, int ranks, int chunks, int64_t microbatches) {
  Pipeline pipeline{ranks * chunks, {}, microbatches};
  for (int stage = 0; stage < pipeline.stages; ++stage) {
    int round = stage / ranks, place = stage % ranks;
    bool returns = placement == StagePlacement::fold && round % 2;
    pipeline.ranksOfStage.push_back({returns ? ranks - 1 - place : place});
  }
  return pipeline;
}

void checkPlacement(const Pipeline &pipeline, StagePlacement placement, std::string_view schedule) {
  int ranks = pipeline.ranks(), chunks = ranks ? pipeline.stages / ranks : 0;
  bool fits = ranks && chunks * ranks == pipeline.stages &&
              (placement != StagePlacement::fold || chunks == 2) &&
              placedPipeline(placement, ranks, chunks, 1).ranksOfStage == pipeline.ranksOfStage;
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
