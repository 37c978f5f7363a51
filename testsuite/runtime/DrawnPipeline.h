#pragma once

#include "testsuite/schedule/AnyPipeline.h"
#include "testsuite/schedule/RandomEdges.h"
#include "testsuite/schedule/ToyRule.h"

#include <algorithm>
#include <random>

namespace pdc {

/// Draws pipelines of every schedule: stages, replicas, several stages per rank, skip edges.
class DrawnPipeline {
public:
  explicit DrawnPipeline(std::mt19937 random) : random(random) {}

  Pipeline pipeline(const ScheduleKind &kind) {
    bool replicated = draw(2), equal = draw(2);
    if (kind.placement != StagePlacement::straight) {
      std::vector<int> replicas(1 + draw(equal ? 4 : 3), 1 + draw(3));
      for (int &count : replicas)
        count = equal ? count : 1 + draw(3);
      return anyPlacedPipeline(kind, replicas, 1 + draw(6), 2 + draw(2));
    }
    std::vector<int> replicas(replicated ? 1 + draw(3) : 1 + draw(6), 1);
    for (int &count : replicas)
      count += replicated ? draw(3) : 0;
    Pipeline drawn =
        replicatedPipeline(replicas, toy::fittingMicrobatches(kind.name, replicas, 1 + draw(8)));
    drawn.verticalSync = draw(2) && std::ranges::count(replicas, replicas[0]) == drawn.stages;
    return drawn;
  }
  std::vector<Edge> edges(int stages) {
    return draw(2) ? chainEdges(stages) : randomEdges(stages, random);
  }
  /// Two runs of which one ends in the middle of whatever it ends in.
  std::vector<int64_t> rounds(const Schedule &schedule) {
    if (!schedule.asynchronous)
      return {schedule.microbatches, 1 + draw(static_cast<int>(schedule.microbatches))};
    return {1 + draw(2 * schedule.stages() + 4), 1 + draw(2 * schedule.stages() + 12)};
  }
  int draw(int count) { return static_cast<int>(random() % static_cast<unsigned>(count)); }

private:
  std::mt19937 random;
};

} // namespace pdc
