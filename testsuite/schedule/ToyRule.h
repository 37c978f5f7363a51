#pragma once

#include "compiler/schedule/Schedule.h"

#include <string_view>

/// The update rules of design and literature, said once more for the tests.
namespace pdc::toy {

/// Updates that each stage of an asynchronous schedule lags behind: what it runs ahead, under
/// vertical sync what stage 0 does, in 2BW one.
std::vector<int64_t> lags(const Schedule &schedule);

/// Microbatches that an update of an asynchronous schedule sums.
int64_t sizeOfUpdate(const Schedule &schedule, int stage);

/// The version that an asynchronous update rule says, in a round that begins at `start`.
int64_t dueVersion(const Schedule &schedule, int64_t lag, int stage, int64_t microbatch,
                   int64_t start);

/// The microbatches of a round of so many iterations.
int64_t microbatchesOf(const Schedule &schedule, int64_t iterations);

/// The least microbatches from `microbatches` on that the schedule of this name takes: 2bw wants as
/// many as there are in flight, shared equally by all replicas.
int64_t fittingMicrobatches(std::string_view name, const std::vector<int> &replicas,
                            int64_t microbatches);

} // namespace pdc::toy
