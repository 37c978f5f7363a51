#include "compiler/schedule/Lifetimes.h"

#include <algorithm>

namespace pdc {

std::optional<int64_t> mostInTurn(const std::vector<Lifetime> &lifetimes) {
  if (!std::ranges::is_sorted(lifetimes, {}, &Lifetime::first) ||
      !std::ranges::is_sorted(lifetimes, {}, &Lifetime::last))
    return std::nullopt;
  size_t ended = 0, most = 0;
  for (size_t turn = 0; turn < lifetimes.size(); ++turn) {
    while (lifetimes[ended].last < lifetimes[turn].first)
      ++ended;
    most = std::max(most, turn - ended + 1);
  }
  return static_cast<int64_t>(most);
}

namespace {

int mostAtOnce(const Lifetimes &lifetimes) {
  int most = 1;
  for (const auto &[microbatch, life] : lifetimes) {
    int count = 0;
    for (const auto &[other, otherLife] : lifetimes)
      count += otherLife.first <= life.first && life.first <= otherLife.last;
    most = std::max(most, count);
  }
  return most;
}

bool fits(const Lifetimes &lifetimes, int64_t slots) {
  for (const auto &[turn, life] : lifetimes)
    for (auto later = lifetimes.upper_bound(turn); later != lifetimes.end(); ++later)
      if ((later->first - turn) % slots == 0 && life.meets(later->second))
        return false;
  return true;
}

bool fits(const std::vector<Lifetimes> &replicas, int64_t slots) {
  return std::ranges::all_of(replicas, [&](const Lifetimes &own) { return fits(own, slots); });
}

std::vector<int> roundRobin(int64_t slots) {
  std::vector<int> table;
  for (int64_t slot = 0; slot < slots; ++slot)
    table.push_back(static_cast<int>(slot));
  return table;
}

/// By start on the first replica, which has the most turns, the lowest slot that is free for that
/// turn on all of them: of one replica alone, no more slots than microbatches live at once. It has
/// turns, or there were nothing to fit.
std::vector<int> colour(const std::vector<Lifetimes> &replicas) {
  std::vector<std::pair<size_t, int64_t>> order;
  for (const auto &[turn, life] : replicas[0])
    order.push_back({life.first, turn});
  std::ranges::sort(order);
  auto meet = [&](int64_t turn, int64_t other) {
    return std::ranges::any_of(replicas, [&](const Lifetimes &own) {
      return own.contains(turn) && own.contains(other) && own.at(turn).meets(own.at(other));
    });
  };
  std::vector<int> table(replicas[0].rbegin()->first + 1);
  std::vector<std::vector<int64_t>> turnsOfSlot;
  for (auto [start, turn] : order) {
    auto free = std::ranges::find_if(turnsOfSlot, [&](const std::vector<int64_t> &turns) {
      return std::ranges::none_of(turns, [&](int64_t other) { return meet(turn, other); });
    });
    if (free == turnsOfSlot.end())
      free = turnsOfSlot.insert(free, std::vector<int64_t>());
    free->push_back(turn);
    table[turn] = static_cast<int>(free - turnsOfSlot.begin());
  }
  return table;
}

/// Of all replicas; nothing where turns are missing or overtake each other.
std::optional<int64_t> mostInTurn(const std::vector<Lifetimes> &replicas) {
  int64_t most = 1;
  for (const Lifetimes &own : replicas) {
    if (own.empty())
      continue;
    std::vector<Lifetime> lifetimes;
    for (const auto &[turn, life] : own)
      lifetimes.push_back(life);
    const std::optional<int64_t> here = mostInTurn(lifetimes);
    if (!here || own.rbegin()->first - own.begin()->first >= static_cast<int64_t>(own.size()))
      return std::nullopt;
    most = std::max(most, *here);
  }
  return most;
}

} // namespace

std::vector<int> makeSlotTable(const std::vector<Lifetimes> &replicas, bool asynchronous) {
  if (std::optional<int64_t> most = mostInTurn(replicas))
    return roundRobin(*most);
  int64_t slots = 1;
  for (const Lifetimes &own : replicas)
    slots = std::max<int64_t>(slots, mostAtOnce(own));
  if (!asynchronous && !fits(replicas, slots))
    return colour(replicas);
  while (!fits(replicas, slots))
    ++slots;
  return roundRobin(slots);
}

} // namespace pdc
