#pragma once

#include "compiler/schedule/Schedule.h"

#include <cstddef>
#include <span>
#include <vector>

namespace pdc {

/// A run of a rank by which of the rank's stages it is of.
struct OrderedRun {
  uint16_t chunk = 0; ///< 0: the rank's first stage
  Phase phase = Phase::forward;

  bool operator==(const OrderedRun &) const = default;
};

/// The compute rows of a rank that takes its microbatches in ascending order in each phase of each
/// stage: a few groups of runs, most of them many times, so that the orders of thousands of ranks
/// are no larger than the ranks.
class RankOrder {
public:
  /// Where a rank is in its order.
  struct Place {
    size_t part = 0, run = 0; ///< of the group
    int64_t round = 0;

    bool operator==(const Place &) const = default;
  };
  class Iterator;

  /// Adds a group of runs so many times.
  void append(std::span<const OrderedRun> group, int64_t times = 1);

  bool endsAt(const Place &place) const { return place.part == parts.size(); }
  const OrderedRun &at(const Place &place) const {
    return runs[parts[place.part].first + place.run];
  }
  void advance(Place &place) const {
    const Part &part = parts[place.part];
    if (++place.run < part.count)
      return;
    place.run = 0;
    if (++place.round < part.times)
      return;
    place.round = 0;
    ++place.part;
  }
  int64_t countRuns() const;
  Iterator begin() const;
  Iterator end() const;

private:
  struct Part {
    size_t first, count; ///< in `runs`
    int64_t times;
  };

  std::vector<OrderedRun> runs;
  std::vector<Part> parts;
};

/// Goes through all runs of an order.
class RankOrder::Iterator {
public:
  using value_type = OrderedRun;
  using difference_type = std::ptrdiff_t;

  Iterator() = default;
  Iterator(const RankOrder &order, Place place) : order(&order), place(place) {}
  const OrderedRun &operator*() const { return order->at(place); }
  Iterator &operator++() {
    order->advance(place);
    return *this;
  }
  Iterator operator++(int) {
    Iterator before = *this;
    ++*this;
    return before;
  }
  bool operator==(const Iterator &other) const { return place == other.place; }

private:
  const RankOrder *order = nullptr;
  Place place;
};

/// The rows that an order stands for: of a rank with these stages, for these microbatches.
std::vector<Step> rowsInOrder(const RankOrder &order, const std::vector<int> &stages,
                              const std::vector<int64_t> &own);

/// By stage of the rank: microbatches at most between what comes first of them and the end of
/// their backward pass. Where `handsOver` of a chunk, its forward pass makes the input of the next
/// chunk, which stays on the rank.
std::vector<int> mostInFlight(const RankOrder &order, const std::vector<bool> &handsOver);

} // namespace pdc
