#pragma once

#include "compiler/schedule/Play.h"
#include "compiler/schedule/Schedules.h"

#include <optional>

namespace pdc {

/// Runs of a minibatch up to which rows are written: a user, a proof and a program go through them
/// one by one.
constexpr int64_t kMostWrittenRuns = 100'000;

/// Forward and backward passes of a minibatch.
inline int64_t runsOf(int stages, int64_t microbatches) { return 2 * stages * microbatches; }

/// A schedule that has rhythms. Ranks with several stages take their runs as mergeOntoRanks says.
Schedule makeRows(std::string_view name, const Pipeline &pipeline);
/// The same under another name.
Schedule makeRowsLike(std::string_view like, std::string_view name, const Pipeline &pipeline);

/// The schedule of that name without its rows, which are too many to be written: what follows from
/// its rhythms alone, slots and versions. Nothing where it has none, or where stages share ranks.
std::optional<Schedule> makeUnwritten(std::string_view name, const Pipeline &pipeline);

/// Seconds of its minibatch, as `play` would find them in the overlapped model: run by run, but
/// without events, and with the tensors that one run sends to a stage as one message.
double playUnwritten(const Schedule &schedule, std::span<const Edge> edges, const PlayCosts &costs);

} // namespace pdc
