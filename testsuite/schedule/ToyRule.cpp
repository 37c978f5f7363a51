#include "testsuite/schedule/ToyRule.h"

#include <algorithm>
#include <numeric>

namespace pdc::toy {

/// Forward passes that a replica runs ahead.
static std::vector<int64_t> ahead(const Schedule &schedule) {
  size_t stages = schedule.ranksOfStage.size();
  std::vector<int64_t> result(stages);
  for (size_t s = stages - 1; s > 0; --s) {
    int64_t behind = schedule.ranksOfStage[s].size(), own = schedule.ranksOfStage[s - 1].size();
    int64_t waiting = own + behind - 2 * std::gcd(own, behind);
    int64_t needed = (result[s] + 1) * behind + waiting;
    result[s - 1] = needed / own + (needed % own ? 1 : 0);
  }
  return result;
}

std::vector<int64_t> lags(const Schedule &schedule) {
  std::vector<int64_t> result = ahead(schedule);
  if (schedule.weightRule != WeightRule::stashed)
    result.assign(result.size(), schedule.weightRule == WeightRule::previous ? 1 : result[0]);
  return result;
}

int64_t sizeOfUpdate(const Schedule &schedule, int stage) {
  return schedule.weightRule == WeightRule::previous
             ? schedule.microbatches
             : static_cast<int64_t>(schedule.ranksOfStage[stage].size());
}

int64_t dueVersion(const Schedule &schedule, int64_t lag, int stage, int64_t microbatch,
                   int64_t start) {
  int64_t size = sizeOfUpdate(schedule, stage);
  return std::max(start / size, microbatch / size - lag);
}

int64_t microbatchesOf(const Schedule &schedule, int64_t iterations) {
  if (!schedule.asynchronous)
    return schedule.microbatches;
  int64_t inFlight = ahead(schedule)[0] * static_cast<int64_t>(schedule.ranksOfStage[0].size());
  while (inFlight % schedule.period)
    ++inFlight;
  return iterations * schedule.period + inFlight;
}

int64_t fittingMicrobatches(std::string_view name, const std::vector<int> &replicas,
                            int64_t microbatches) {
  if (name != "2bw")
    return microbatches;
  Schedule shape;
  for (int count : replicas)
    shape.ranksOfStage.emplace_back(count);
  std::vector<int64_t> inFlight = ahead(shape);
  for (;; ++microbatches) {
    bool fits = true;
    for (size_t stage = 0; stage < replicas.size(); ++stage)
      fits = fits && microbatches % replicas[stage] == 0 &&
             microbatches >= (inFlight[stage] + 1) * replicas[stage];
    if (fits)
      return microbatches;
  }
}

} // namespace pdc::toy
