#include "passes/PackIntervals.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace pdc {

using Span = std::pair<int64_t, int64_t>; ///< offset and end

/// The tightest gap between `placed` (sorted) that holds `bytes`; behind all of them if none does.
static int64_t findGap(const std::vector<Span> &placed, int64_t bytes, int64_t start) {
  int64_t best = -1, tightest = std::numeric_limits<int64_t>::max(), free = start;
  for (auto [offset, end] : placed) {
    int64_t gap = offset - free;
    if (gap >= bytes && gap < tightest) {
      best = free;
      tightest = gap;
    }
    free = std::max(free, end);
  }
  return best >= 0 ? best : free;
}

Packing packIntervals(const std::vector<Interval> &intervals, int64_t start) {
  std::vector<size_t> order(intervals.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](size_t a, size_t b) {
    return std::pair(-intervals[a].bytes, intervals[a].begin) <
           std::pair(-intervals[b].bytes, intervals[b].begin);
  });
  Packing packing{std::vector<int64_t>(intervals.size()), aligned(start)};
  std::vector<size_t> placed;
  for (size_t index : order) {
    std::vector<Span> meeting;
    for (size_t other : placed)
      if (intervals[index].meets(intervals[other]))
        meeting.push_back(
            {packing.offsets[other], packing.offsets[other] + aligned(intervals[other].bytes)});
    std::ranges::sort(meeting);
    int64_t bytes = aligned(intervals[index].bytes);
    packing.offsets[index] = findGap(meeting, bytes, aligned(start));
    packing.bytes = std::max(packing.bytes, packing.offsets[index] + bytes);
    placed.push_back(index);
  }
  return packing;
}

} // namespace pdc
