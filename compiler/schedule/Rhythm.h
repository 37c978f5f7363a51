#pragma once

#include "compiler/schedule/Play.h"
#include "compiler/schedule/RankOrder.h"
#include "compiler/schedule/Schedules.h"

#include <optional>

namespace pdc {

/// Runs of a minibatch up to which rows are written: a user, a proof and a program go through them
/// one by one.
constexpr int64_t kMostWrittenRuns = 100'000;

/// Forward and backward passes of a minibatch.
inline int64_t runsOf(int stages, int64_t microbatches) { return 2 * stages * microbatches; }

/// What is held against it. The rows of p asynchronous stages hold some p runs for each rank, or
/// each microbatch of a round of the replicas, and a proof goes through them with each number of
/// iterations up to some p.
int64_t runsToWrite(std::string_view name, const Pipeline &pipeline);

/// A synchronous schedule that has rhythms. Ranks with several stages take their runs as
/// mergeOntoRanks says.
Schedule makeRows(std::string_view name, const Pipeline &pipeline);
/// The same under another name.
Schedule makeRowsLike(std::string_view like, std::string_view name, const Pipeline &pipeline);

/// The orders of all ranks; replicas share theirs.
struct RankOrders {
  std::vector<RankOrder> orders;
  std::vector<size_t> orderOfRank;
};

/// Of a schedule that has rhythms or orders, the replicas of the latter equal.
RankOrders ordersOf(std::string_view name, const Pipeline &pipeline);

/// The schedule of that name without its rows, which are too many to be written, and without slots:
/// what follows from its rhythms or orders alone. Nothing where stages share ranks in a way of
/// their own or with unequal replicas, and where an asynchronous one has vertical sync over unequal
/// replicas, or sums fewer microbatches than are in flight: neither is a schedule.
std::optional<Schedule> makeUnwritten(std::string_view name, const Pipeline &pipeline);

/// Gives it slots, no fewer than its rows would have with transfers for these edges.
void assignUnwrittenSlots(Schedule &schedule, std::span<const Edge> edges);

/// By stage, as peakActivations of its rows; what several stages of a rank hand over to each other
/// counts from then on.
std::vector<int> unwrittenPeaks(const Schedule &schedule);

/// Microbatches until the rhythm of an asynchronous schedule has reached every rank: the slowest
/// replica has then run four for each stage.
int64_t enoughMicrobatches(const std::vector<std::vector<int>> &ranksOfStage);

/// Microbatches, a multiple of those that an update sums, in which the replicas of all stages take
/// whole turns; of as many stages as make that no more than enough.
int64_t roundOfReplicas(const std::vector<std::vector<int>> &ranksOfStage, int64_t summed = 1);

/// Microbatches of an asynchronous schedule without rows until its rhythm has reached every rank,
/// in whole rounds.
int64_t microbatchesToSettle(const Schedule &schedule);

/// Seconds of its minibatch, or of a microbatch in steady state, as `play` would find them in the
/// overlapped model: run by run, but without events, and with the tensors that one run sends to a
/// stage as one message.
double playUnwritten(const Schedule &schedule, std::span<const Edge> edges, const PlayCosts &costs);

} // namespace pdc
