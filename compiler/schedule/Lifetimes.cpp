#include "compiler/schedule/Lifetimes.h"

#include <algorithm>
#include <iterator>

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

/// One of those that live at once begins when the others have begun and none has ended.
int mostAtOnce(const Lifetimes &lifetimes) {
  std::vector<size_t> begins, ends;
  for (const auto &[turn, life] : lifetimes) {
    begins.push_back(life.first);
    ends.push_back(life.last);
  }
  std::ranges::sort(begins);
  std::ranges::sort(ends);
  size_t ended = 0, most = 1;
  for (size_t begun = 1; begun <= begins.size(); ++begun) {
    while (ends[ended] < begins[begun - 1])
      ++ended;
    most = std::max(most, begun - ended);
  }
  return static_cast<int>(most);
}

/// The lifetimes of one slot, none of which meets another: by their begins, and so by their ends.
class SlotLives {
public:
  bool isFreeFor(const Lifetime &life) const {
    auto later = ends.upper_bound(life.last); // the first that begins behind it
    return later == ends.begin() || std::prev(later)->second < life.first;
  }
  void add(const Lifetime &life) { ends.emplace(life.first, life.last); }

private:
  std::map<size_t, size_t> ends; ///< by begin
};

bool fits(const Lifetimes &lifetimes, int64_t slots) {
  std::vector<std::vector<Lifetime>> lives(static_cast<size_t>(slots));
  for (const auto &[turn, life] : lifetimes)
    lives[static_cast<size_t>(turn % slots)].push_back(life);
  return std::ranges::all_of(lives, [](std::vector<Lifetime> &ofSlot) {
    std::ranges::sort(ofSlot, {}, &Lifetime::first);
    return std::ranges::adjacent_find(ofSlot, &Lifetime::meets) == ofSlot.end();
  });
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

/// By start on the first replica, which has every turn that another has, the lowest slot that is
/// free for that turn on all of them: of one replica alone, no more slots than microbatches live at
/// once.
std::vector<int> colour(const std::vector<Lifetimes> &replicas) {
  std::vector<std::pair<size_t, int64_t>> order;
  for (const auto &[turn, life] : replicas[0])
    order.push_back({life.first, turn});
  std::ranges::sort(order);
  std::vector<int> table(replicas[0].rbegin()->first + 1);
  std::vector<std::vector<SlotLives>> slots; // by slot and replica
  for (auto [start, turn] : order) {
    auto free = std::ranges::find_if(slots, [&, turn = turn](const std::vector<SlotLives> &lives) {
      for (size_t replica = 0; replica < replicas.size(); ++replica)
        if (auto own = replicas[replica].find(turn);
            own != replicas[replica].end() && !lives[replica].isFreeFor(own->second))
          return false;
      return true;
    });
    if (free == slots.end())
      free = slots.emplace(free, replicas.size());
    for (size_t replica = 0; replica < replicas.size(); ++replica)
      if (auto own = replicas[replica].find(turn); own != replicas[replica].end())
        (*free)[replica].add(own->second);
    table[static_cast<size_t>(turn)] = static_cast<int>(free - slots.begin());
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
