#include "testsuite/schedule/RandomEdges.h"

#include <string>

namespace pdc {

std::vector<Edge> randomEdges(int stages, std::mt19937 &random) {
  std::vector<Edge> edges;
  auto draw = [&](int count) { return static_cast<int>(random() % count); };
  auto add = [&](int from, int to, Phase producer, Phase consumer) {
    int id = static_cast<int>(edges.size());
    edges.push_back({id, "t" + std::to_string(id), from, to, producer, consumer, 4});
  };
  for (int stage = 0; stage + 1 < stages; ++stage)
    for (int tensors = 1 + draw(2); tensors > 0; --tensors) {
      add(stage, stage + 1, Phase::forward, Phase::forward);
      add(stage + 1, stage, Phase::backward, Phase::backward);
    }
  for (int skips = stages > 1 ? draw(5) : 0; skips > 0; --skips) {
    int from = draw(stages - 1), to = from + 1 + draw(stages - 1 - from);
    add(from, to, Phase::forward, draw(4) ? Phase::forward : Phase::backward);
    if (draw(4))
      add(to, from, Phase::backward, Phase::backward);
  }
  return edges;
}

} // namespace pdc
