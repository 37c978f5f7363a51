#pragma once

#include "compiler/schedule/Rows.h"

namespace pdc {

/// Adds a send and a receive for every edge between ranks and every microbatch. Between stages of
/// one rank nothing is sent: a tensor is copied into its reader's slot when it is made.
///
/// First choice: what a run produced is sent right behind it, what a run needs is received right
/// before it; neighbours form one group. Where the strict model cannot finish with that (an edge
/// that skips stages may need its sender to wait for a rank that waits for it), transfers follow
/// one linear order of a valid execution, on the sender as on the receiver: the first transfer of
/// that order that is not done can always be done, so nothing waits for ever.
///
/// Rows that hold transfers already (those of a plan) are left as they are.
void placeTransfers(Schedule &schedule, std::span<const Edge> edges);

/// Leaves the runs and sums.
void removeTransfers(Schedule &schedule);

/// Of an evaluation, whose values all go forwards: the linear order is that of microbatches and
/// stages, whatever the stages of each rank and the edges between them. Its rows then need no
/// warm-up.
void placeTransfersOfEvaluation(Schedule &schedule, std::span<const Edge> edges);

/// What a run sends behind it, or receives before it, by the other stage, in the order in which a
/// rank that holds several of those stages runs them: both ends then take the messages between two
/// ranks in one order.
std::vector<const Edge *> transfersAtRun(const Schedule &schedule, const StageEdges &edges,
                                         const Task &task, bool sent);

/// The two arrangements by themselves.
void placeTransfersAtRuns(Schedule &schedule, std::span<const Edge> edges);
void placeTransfersInGlobalOrder(Schedule &schedule, std::span<const Edge> edges);

/// The edges by which an execution is played whose order that one is. A stage of an asynchronous
/// schedule to which no gradient comes would run ahead of the others, and its messages come before
/// their place in rows that know as many microbatches as the schedule holds: it waits for the next
/// stage like every other.
std::vector<Edge> chainStages(const Schedule &schedule, std::span<const Edge> edges);

} // namespace pdc
