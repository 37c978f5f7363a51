#pragma once

#include "compiler/schedule/Schedule.h"

#include <span>
#include <vector>

namespace pdc {

/// Forward passes that each replica of a stage runs ahead of its backward passes, so that no stage
/// stalls when all are equally fast: from the last stage up, w = 0, and
///
///     w(s) = ceil(((w(s+1) + 1) r(s+1) + g) / r(s)),
///
/// g = 0, or r(s) + r(s+1) - 2 gcd(r(s), r(s+1)) where a replica `waits` for its group's gradients
/// before its next forward pass. One replica per stage: the stages behind it.
std::vector<int64_t> forwardsAhead(const std::vector<std::vector<int>> &ranksOfStage, bool waits);

/// The microbatches below `count` of one replica of a stage, ascending.
std::vector<int64_t> microbatchesOf(int64_t replica, int64_t replicas, int64_t count);

/// Rows of an iteration with as many microbatches would take gigabytes.
constexpr int64_t kLongestPeriod = 1 << 20;

/// Microbatches after which the routing between all stages repeats, in whole updates of so many;
/// kLongestPeriod where they are more.
int64_t routingPeriod(const std::vector<std::vector<int>> &ranksOfStage, int64_t summed = 1);

/// The same for rows that are to be written: throws pdc::Error where they are too many.
int64_t writtenPeriod(const Schedule &schedule);

/// Iterations of an asynchronous schedule after which it is steady: the slowest replica has then
/// run four microbatches for each stage.
int64_t iterationsToSettle(const Schedule &schedule);

/// Which of a stage's replicas a rank is; -1: none.
int replicaOn(const Schedule &schedule, int stage, int rank);

/// Microbatches that one update of a stage sums, all its replicas together.
int64_t microbatchesPerUpdate(const Schedule &schedule, int stage);

} // namespace pdc
