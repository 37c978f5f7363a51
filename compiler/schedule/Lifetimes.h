#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace pdc {

/// The places of a rank's rows between which a microbatch occupies its slot, both ends included.
struct Lifetime {
  size_t first = 0, last = 0;

  bool meets(const Lifetime &other) const { return first <= other.last && other.first <= last; }
};

/// How many live at once, of microbatches in the order of a replica's turns; nothing unless they
/// begin and end in that order. So many slots, taken in turn, are enough: where turns i and i + k
/// meet, all k + 1 from the one to the other live when i + k begins, since those between have begun
/// by then and none ends before i.
std::optional<int64_t> mostInTurn(const std::vector<Lifetime> &lifetimes);

/// Of one replica, by its turn: microbatch k of r replicas is turn k / r.
using Lifetimes = std::map<int64_t, Lifetime>;

/// The slot of each turn, from which on it repeats: one table for all replicas of a stage. In turn,
/// unless the turns of a minibatch, all of which are given, get along with fewer slots otherwise.
/// The first replica has every turn that another has: microbatches go to replicas in turn.
std::vector<int> makeSlotTable(const std::vector<Lifetimes> &replicas, bool asynchronous);

} // namespace pdc
