#pragma once

#include "compiler/schedule/Play.h"
#include "compiler/schedule/Proof.h"

namespace pdc {

/// How the messages of accelerators are put into queues beside that of the tasks. A task waits for
/// what it receives, a message for the tasks before it in the rows, both sides of a message for
/// each other; besides, under
/// - pairs: a rank's messages run one group after the other, in the order of the rows, over one
///   communicator per pair of ranks; a group that has several peers is as many, later ranks first;
/// - edges: each directed edge between two ranks has a communicator and a queue of its own; a call
///   begins when the one before it has begun, as NCCL keeps the order of calls.
///
///     rank 1, rows     F0 >F0(2) <F1(0) F1 ...        (neighbours: one group)
///     pairs, queue     >F0(2) | <F1(0) | ...
///     edges, queues    >F0(2) ...     and     <F1(0) ...
enum class Arrangement : uint8_t { pairs, edges };

/// Groups as ranks post them: where a receive takes the slot that a send of its group leaves, the
/// sends go first and the receives follow once the sends have ended. A rank waits there where both
/// share bytes; without that wait it would only do the same sooner.
UnrolledRows splitAtSlots(const Schedule &schedule, const UnrolledRows &rows);

/// Groups as `pairs` issues them: split by peers.
UnrolledRows splitByPeers(const UnrolledRows &rows);

/// As findDeadlock(schedule), of groups that are given: those that a run has issued.
std::optional<Deadlock> findDeadlock(const UnrolledRows &rows);

/// As findDeadlock, with groups as `pairs` issues them: tasks, too, wait for the messages before
/// them, so that every wait of the queue is one of the model. Those of `edges` are all among the
/// waits of whole groups, which findDeadlock(schedule) looks at: a call waits for calls of earlier
/// groups alone, and for its peer.
std::optional<Deadlock> findDeadlockOfPairs(const Schedule &schedule);

/// Runs a piece of a run call by call in these queues; where it stands still: which ranks do.
std::optional<std::string> findStall(const UnrolledRows &calls, Arrangement arrangement);

/// Seconds between two updates, or between two microbatches in steady state, with these queues.
double secondsInQueues(const Schedule &schedule, const PlayCosts &costs, Arrangement arrangement);

} // namespace pdc
