#include "compiler/schedule/OrderPlayer.h"
#include "compiler/schedule/Replicas.h"

#include <algorithm>
#include <numeric>

namespace pdc {

int64_t enoughMicrobatches(const std::vector<std::vector<int>> &ranksOfStage) {
  size_t most = 1;
  for (const std::vector<int> &ranks : ranksOfStage)
    most = std::max(most, ranks.size());
  return static_cast<int64_t>((4 * ranksOfStage.size() + 8) * most);
}

int64_t roundOfReplicas(const std::vector<std::vector<int>> &ranksOfStage, int64_t summed) {
  const int64_t enough = enoughMicrobatches(ranksOfStage);
  int64_t round = summed;
  for (const std::vector<int> &ranks : ranksOfStage)
    if (int64_t common = std::lcm(round, static_cast<int64_t>(ranks.size())); common <= enough)
      round = common;
  return round;
}

int64_t microbatchesToSettle(const Schedule &schedule) {
  const int64_t round = roundOfReplicas(schedule.ranksOfStage, schedule.microbatches);
  return (enoughMicrobatches(schedule.ranksOfStage) + round - 1) / round * round;
}

double playUnwritten(const Schedule &schedule, std::span<const Edge> edges,
                     const PlayCosts &costs) {
  if (!schedule.asynchronous)
    return OrderPlayer(schedule, edges, costs, schedule.microbatches).play();
  // The difference of two runs of equal warm-up and drain is steady state alone.
  const int64_t settle = microbatchesToSettle(schedule);
  auto [few, many] = OrderPlayer(schedule, edges, costs, 2 * settle).playFirstAndAll(settle);
  return (many - few) / static_cast<double>(settle) * static_cast<double>(schedule.microbatches);
}

} // namespace pdc
