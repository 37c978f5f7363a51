#pragma once

#include "compiler/schedule/Schedule.h"

namespace pdc {

/// Runs a schedule for several minibatches with integer kernels, one thread per rank and sends that
/// wait for their receives; whether it ends and its final weights are those of a run that follows
/// the update rule and knows no schedule. Messages between two ranks meet in the order of their
/// sends, once by pair of ranks and once by edge: both must be right.
///
/// Shares no code with the library that it judges.
bool runsCorrectly(const Schedule &schedule, const std::vector<Edge> &edges);

} // namespace pdc
