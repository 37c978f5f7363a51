#include "compiler/schedule/GradientSums.h"

#include <algorithm>

namespace pdc {

void GradientSums::add(Phase phase, int64_t microbatch) {
  Sum &sum = sums[phase];
  sum.last = microbatch;
  sum.microbatches.push_back(microbatch);
  overReplicas = overRanks = false;
}

int64_t GradientSums::last(Phase phase) const {
  auto sum = sums.find(phase);
  return sum == sums.end() ? -1 : sum->second.last;
}

std::string GradientSums::missing(std::span<const Phase> phases, const std::vector<int64_t> &due,
                                  int64_t first, int64_t last) const {
  for (Phase phase : phases) {
    auto sum = sums.find(phase);
    std::vector<int64_t> found =
        sum == sums.end() ? std::vector<int64_t>() : sum->second.microbatches;
    std::string upTo = found.empty() ? "" : " up to microbatch " + std::to_string(found.back());
    std::ranges::sort(found);
    if (found != due)
      return "the update needs the gradients of microbatches " + std::to_string(first) + " to " +
             std::to_string(last) + ", found " + std::to_string(found.size()) + " gradients" + upTo;
  }
  return "";
}

void GradientSums::clear() {
  for (auto &[phase, sum] : sums)
    sum.microbatches.clear();
  overReplicas = overRanks = false;
}

} // namespace pdc
