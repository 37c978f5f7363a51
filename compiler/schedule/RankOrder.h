#pragma once

#include "compiler/schedule/Schedule.h"

#include <vector>

namespace pdc {

/// A run of a rank by which of the rank's stages it is of.
struct OrderedRun {
  uint16_t chunk = 0; ///< 0: the rank's first stage
  Phase phase = Phase::forward;
};

/// The compute rows of a rank that takes its microbatches in ascending order in each phase of each
/// stage: an eighth of the bytes of its steps, so that even those of thousands of ranks can be
/// played.
using RankOrder = std::vector<OrderedRun>;

/// The rows that an order stands for: of a rank with these stages, for these microbatches.
std::vector<Step> rowsInOrder(const RankOrder &order, const std::vector<int> &stages,
                              const std::vector<int64_t> &own);

/// By stage of the rank: microbatches at most between what comes first of them and the end of
/// their backward pass. Where `handsOver` of a chunk, its forward pass makes the input of the next
/// chunk, which stays on the rank.
std::vector<int> mostInFlight(const RankOrder &order, const std::vector<bool> &handsOver);

} // namespace pdc
