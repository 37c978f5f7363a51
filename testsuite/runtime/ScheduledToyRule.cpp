#include "testsuite/runtime/ScheduledToy.h"

#include "compiler/schedule/Rows.h"
#include "testsuite/runtime/ToyWords.h"
#include "testsuite/schedule/ToyRule.h"

#include <utility>

namespace toy {

using Weights = std::vector<std::vector<uint32_t>>;

namespace {

struct Passed {
  std::vector<uint32_t> first, second; ///< by stage: the gradients of both halves
};

/// One microbatch through all stages with the given weights.
Passed passThrough(const std::vector<uint32_t> &weights, const std::vector<pdc::Edge> &edges,
                   uint32_t microbatch) {
  int stages = int(weights.size());
  std::vector<uint32_t> value(edges.size()), stash(weights.size());
  auto pass = [&](int stage, pdc::Phase phase, uint32_t word) {
    for (const pdc::Edge &edge : edges)
      if (edge.toStage == stage && edge.consumer == phase)
        word = mix(word, value[edge.id]);
    for (const pdc::Edge &edge : edges)
      if (edge.fromStage == stage && edge.producer == phase)
        value[edge.id] = mix(word, uint32_t(edge.id));
    return word;
  };
  Passed passed{weights, weights};
  for (int stage = 0; stage < stages; ++stage) {
    uint32_t word = forwardOf(stage, weights[stage]);
    if (stage == 0)
      word = mix(word, microbatch);
    stash[stage] = pass(stage, pdc::Phase::forward, word);
  }
  for (int stage = stages; stage-- > 0;) {
    passed.first[stage] =
        pass(stage, pdc::Phase::backward, backwardOf(stash[stage], weights[stage]));
    passed.second[stage] = weightGradientOf(passed.first[stage], stash[stage]);
  }
  return passed;
}

} // namespace

Weights ScheduledToy::expected(const std::vector<int64_t> &rounds) const {
  int stages = schedule.stages();
  std::vector<uint32_t> newest;
  for (int stage = 0; stage < stages; ++stage)
    newest.push_back(initialWeight(stage));
  for (int64_t microbatches : rounds) {
    // By stage and version of this round, which begins drained.
    Weights history;
    for (uint32_t weight : newest)
      history.push_back({weight});
    std::vector<std::pair<uint32_t, uint32_t>> sums(newest.size());
    for (int64_t t = 0; t < microbatches; ++t) {
      std::vector<uint32_t> used = newest;
      for (int stage = 0; schedule.asynchronous && stage < stages; ++stage)
        used[stage] = history[stage][size_t(
            pdc::toy::dueVersion(schedule, pdc::toy::lags(schedule)[stage], stage, t, 0))];
      Passed passed = passThrough(used, edges, uint32_t(t));
      for (int stage = 0; stage < stages; ++stage) {
        sums[stage].first += passed.first[stage];
        sums[stage].second += passed.second[stage];
        bool isLast = t + 1 == microbatches;
        if (!isLast &&
            !(schedule.asynchronous && (t + 1) % pdc::toy::sizeOfUpdate(schedule, stage) == 0))
          continue;
        auto [first, second] = std::exchange(sums[stage], {});
        history[stage].push_back(nextWeight(history[stage].back(), first, second));
      }
    }
    for (int stage = 0; stage < stages; ++stage)
      newest[stage] = history[stage].back();
  }
  Weights weights;
  for (int stage = 0; stage < stages; ++stage)
    weights.emplace_back(schedule.ranksOfStage[stage].size(), newest[stage]);
  return weights;
}

} // namespace toy
