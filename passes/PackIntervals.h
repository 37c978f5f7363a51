#pragma once

#include <cstdint>
#include <vector>

namespace pdc {

/// Bytes that are needed from one moment to another, both included.
struct Interval {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t bytes = 0;

  bool meets(const Interval &other) const { return begin <= other.end && other.begin <= end; }
};

struct Packing {
  std::vector<int64_t> offsets; ///< one per interval, multiples of 64
  int64_t bytes = 0;            ///< of all together, a multiple of 64
};

/// The next multiple of 64: what vector loads and cache lines want.
inline int64_t aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }

/// Gives intervals that meet disjoint bytes from `start` on. Largest first, each into the tightest
/// gap between those already placed that it meets.
Packing packIntervals(const std::vector<Interval> &intervals, int64_t start = 0);

} // namespace pdc
