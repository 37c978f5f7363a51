#include "compiler/schedule/Replicas.h"

#include "compiler/Error.h"

#include <algorithm>
#include <numeric>

namespace pdc {

static int64_t dividedUp(int64_t count, int64_t by) { return (count + by - 1) / by; }

std::vector<int64_t> forwardsAhead(const std::vector<std::vector<int>> &ranksOfStage, bool waits) {
  std::vector<int64_t> ahead(ranksOfStage.size());
  for (size_t stage = ahead.size() - 1; stage-- > 0;) {
    auto own = static_cast<int64_t>(ranksOfStage[stage].size());
    auto behind = static_cast<int64_t>(ranksOfStage[stage + 1].size());
    int64_t group = waits ? own + behind - 2 * std::gcd(own, behind) : 0;
    ahead[stage] = dividedUp((ahead[stage + 1] + 1) * behind + group, own);
  }
  return ahead;
}

std::vector<int64_t> microbatchesOf(int64_t replica, int64_t replicas, int64_t count) {
  std::vector<int64_t> own;
  for (int64_t microbatch = replica; microbatch < count; microbatch += replicas)
    own.push_back(microbatch);
  return own;
}

int64_t routingPeriod(const std::vector<std::vector<int>> &ranksOfStage, int64_t summed) {
  int64_t period = std::min(summed, kLongestPeriod);
  for (const std::vector<int> &ranks : ranksOfStage)
    period = std::min(kLongestPeriod, std::lcm(period, static_cast<int64_t>(ranks.size())));
  return period;
}

int64_t writtenPeriod(const Schedule &schedule) {
  const int64_t summed = schedule.sumsMicrobatches() ? schedule.microbatches : 1;
  const int64_t period = routingPeriod(schedule.ranksOfStage, summed);
  if (period < kLongestPeriod)
    return period;
  std::string replicas;
  for (const std::vector<int> &ranks : schedule.ranksOfStage)
    replicas += (replicas.empty() ? "" : "-") + std::to_string(ranks.size());
  throw Error("schedule " + schedule.name + ": the turns of " + replicas +
              " replicas repeat after a common multiple" +
              (summed > 1 ? " of " + std::to_string(summed) + " microbatches" : "") +
              " that is too large to write rows for, expected less than " +
              std::to_string(kLongestPeriod) +
              (routingPeriod(schedule.ranksOfStage) < kLongestPeriod
                   ? "; use fewer microbatches per update"
                   : "; choose replicas that share factors, as in 4-2-1"));
}

int64_t iterationsToSettle(const Schedule &schedule) {
  int64_t most = 1;
  for (int stage = 0; stage < schedule.stages(); ++stage)
    most = std::max(most, schedule.replicas(stage));
  return dividedUp((4 * schedule.stages() + 8) * most, std::max<int64_t>(schedule.period, 1));
}

int replicaOn(const Schedule &schedule, int stage, int rank) {
  const std::vector<int> &ranks = schedule.ranksOfStage[stage];
  auto found = std::ranges::find(ranks, rank);
  return found == ranks.end() ? -1 : static_cast<int>(found - ranks.begin());
}

int64_t microbatchesPerUpdate(const Schedule &schedule, int stage) {
  return schedule.sumsMicrobatches() ? schedule.microbatches : schedule.replicas(stage);
}

} // namespace pdc
