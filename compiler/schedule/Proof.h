#pragma once

#include "compiler/schedule/Rows.h"

#include <optional>

namespace pdc {

/// Throws pdc::Error when rows name a stage, microbatch, edge or peer that cannot be: everything
/// else may rely on it.
void checkRows(const Schedule &schedule, std::span<const Edge> edges);

/// A state of the strict model in which no rank can go on.
struct Deadlock {
  int rank = 0; ///< one of the ranks that wait for each other
  Step step;    ///< what it does next
  int64_t iterations = 0;
  std::string text; ///< who waits for whom
};

/// Runs the rows in the strict model: the transfers of a group start together and hold their rank
/// until every peer has come to its side; messages between two ranks arrive in the order in which
/// they were sent. A group whose receive takes the slot that one of its sends leaves is two, the
/// sends first: a runtime may wait there (splitAtSlots). A wait-for graph of groups that has a
/// cycle, or a step without its other side, stands still there whatever the speed of ranks and
/// links.
///
/// An asynchronous schedule is run with 0, 1, 2, ... iterations until the ranks' positions at the
/// moment when the first of them begins to drain are those of a shorter run, shifted: from there on
/// every longer run goes through states that have been seen to end. Ranks that no transfer or sum
/// connects are looked at apart: they drift as they like.
///
/// What is proven stays true for a tail of fewer microbatches, whose steps are left out on all
/// ranks, and where a runtime joins groups over the border of iterations: both only take waits
/// away.
std::optional<Deadlock> findDeadlock(const Schedule &schedule);

/// Throws pdc::Error with a drawing that marks where the schedule stands still.
void proveNoDeadlock(const Schedule &schedule, std::span<const Edge> edges);

/// Replays all ranks; every buffer knows its tensor and microbatch, every weight its version.
/// Throws pdc::Error with a drawing that marks the first wrong step unless
/// - each run finds the inputs of its own microbatch, and each message carries what its receiver
///   expects;
/// - a slot is taken only when the microbatch in it has ended and its outputs are sent;
/// - each backward pass reads the version its forward pass read, which is still kept;
/// - the forward pass of microbatch t reads the version of the update rule, which is still kept: of
///   a synchronous schedule that of its minibatch, of an asynchronous one max(d, t / r - w) at a
///   stage of r replicas that runs w forward passes ahead (see forwardsAhead; without replicas
///   p - 1 - s at stage s of p), d being its updates at the last drain; under vertical sync w is
///   that of stage 0 at every stage, and the version is the newest that stage 0 has at that time;
///   where an update sums m microbatches (2BW) it is max(d, t / m - 1);
/// - each update has summed the gradients of every microbatch of its minibatch once, of an
///   asynchronous schedule ascending on each replica; of both halves of the backward pass, where
///   they run apart;
/// - replicas sum their gradients once per update, when each has all of its own, before the sums
///   over all ranks, which come once per update, when every stage has all of its gradients: so
///   those of tied weights are reduced once.
void checkData(const Schedule &schedule, std::span<const Edge> edges);

/// What --exact promises beside that: each stage runs the microbatches of a minibatch in ascending
/// order in every phase, so that its sums and running statistics have the bits of one stage. Throws
/// pdc::Error with a drawing that marks the first step that does not.
void checkOrder(const Schedule &schedule, std::span<const Edge> edges);

} // namespace pdc
