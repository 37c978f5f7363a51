#pragma once

#include "compiler/plan/Plan.h"

#include <functional>
#include <span>

namespace pdc {

/// Sets of units that hold, with every unit, all units it reads from (ideals of the graph's order;
/// the antichains of their last units are PipeDream's states). A pipeline can be cut behind exactly
/// these, and what lies between two nested ones is a convex stage.
class DownSets {
public:
  explicit DownSets(int units) : units(units), words((units + 63) / 64) {}

  void add(std::span<const uint64_t> set) { bits.insert(bits.end(), set.begin(), set.end()); }
  int count() const { return static_cast<int>(bits.size() / words); }
  std::span<const uint64_t> at(int set) const {
    return {bits.data() + static_cast<size_t>(set) * words, static_cast<size_t>(words)};
  }
  bool has(int set, int unit) const { return at(set)[unit / 64] >> (unit % 64) & 1; }
  /// Whether `inner` is part of `outer`.
  bool nested(int inner, int outer) const;
  /// Units of `to` that `from` lacks, ascending.
  std::vector<int> between(int from, int to) const;
  /// Bytes that cross: of values made in the set and read outside it.
  double crossingBytes(int set, const PlanGraph &graph) const;
  /// Seconds of one microbatch and its update, by set: never less than of a subset.
  std::vector<double> seconds(const PlanGraph &graph) const;

  /// The same sets, a set behind its subsets: by seconds, then by number of units; no set twice.
  DownSets sorted(const PlanGraph &graph) const;
  /// At most `most` of them, the first and the last kept, evenly spread over the seconds; of
  /// neighbours the one that the fewest bytes cross. Expects them sorted.
  DownSets thinned(int most, const PlanGraph &graph) const;

  int units;
  int words; ///< of 64 bits each
  /// Whether no other down-set exists.
  bool all = false;

private:
  std::vector<uint64_t> bits;
};

/// As many down-sets as the search can take, sorted, from the empty one to that of all units. The
/// richest family that `fits` says yes to: all of them; those grown from the first unit by one
/// reader at a time, so that another source comes in only where something needs it (the states of
/// PipeDream's optimizer); those that also keep chains inside parallel branches whole. Where it is
/// not all of them, the prefixes of some orders of the units come with it.
DownSets findDownSets(const PlanGraph &graph, const std::function<bool(int count)> &fits);


} // namespace pdc
