#include "compiler/schedule/RankOrder.h"

#include "compiler/schedule/Schedules.h"

#include <algorithm>
#include <array>

namespace pdc {

static constexpr size_t kPhases = static_cast<size_t>(Phase::evaluate) + 1;

void RankOrder::append(std::span<const OrderedRun> group, int64_t times) {
  if (group.empty() || times <= 0)
    return;
  if (!parts.empty()) {
    Part &last = parts.back();
    if (std::ranges::equal(std::span(runs).subspan(last.first, last.count), group)) {
      last.times += times;
      return;
    }
  }
  parts.push_back({runs.size(), group.size(), times});
  runs.insert(runs.end(), group.begin(), group.end());
}

int64_t RankOrder::countRuns() const {
  int64_t all = 0;
  for (const Part &part : parts)
    all += static_cast<int64_t>(part.count) * part.times;
  return all;
}

RankOrder::Iterator RankOrder::begin() const { return {*this, {}}; }
RankOrder::Iterator RankOrder::end() const { return {*this, {.part = parts.size()}}; }

std::vector<Step> rowsInOrder(const RankOrder &order, const std::vector<int> &stages,
                              const std::vector<int64_t> &own) {
  std::vector<std::array<size_t, kPhases>> next(stages.size());
  std::vector<Step> rows;
  rows.reserve(static_cast<size_t>(order.countRuns()));
  for (const OrderedRun &run : order) {
    size_t turn = next[run.chunk][static_cast<size_t>(run.phase)]++;
    rows.push_back(runStep(stages[run.chunk], run.phase, own[turn]));
  }
  return rows;
}

std::vector<int> mostInFlight(const RankOrder &order, const std::vector<bool> &handsOver) {
  std::vector<int> held(handsOver.size()), most = held;
  auto begin = [&](size_t chunk) { most[chunk] = std::max(most[chunk], ++held[chunk]); };
  for (const OrderedRun &run : order) {
    const size_t chunk = run.chunk;
    if (run.phase == Phase::forward) {
      if (chunk == 0 || !handsOver[chunk - 1])
        begin(chunk);
      if (handsOver[chunk])
        begin(chunk + 1);
    } else if (run.phase != Phase::backwardInput) {
      --held[chunk];
    }
  }
  return most;
}

} // namespace pdc
