#pragma once

#include "compiler/schedule/Schedule.h"

#include <optional>
#include <string_view>

namespace pdc {

/// "forward", "input gradients": as people read it.
std::string_view phaseName(Phase phase);

/// "forward", "backward_input": the category of its tasks in traces, predicted and measured ones.
std::string_view phaseCategory(Phase phase);

/// Nothing for those of messages and sums over ranks.
std::optional<Phase> phaseOfCategory(std::string_view category);

/// "2F0" (run), "2F0>3#5" (send edge 5, made by 2F0, to rank 3), "3F0<2#5" (receive edge 5, for
/// 3F0, from rank 2), "allreduce", "allreduce:2U3" (the gradients of the replicas of stage 2, for
/// its update 2U3).
std::string toString(const Step &step);

/// A schedule as a file. Lines: `schedule NAME`, `asynchronous` (where it is), `microbatches M`,
/// `period K` (asynchronous), `weights at-entry` (vertical sync) or `weights previous` (2BW),
/// `stages R R R` (the rank of each stage, or its replicas' as in `0,1`), and per rank `rank N:
/// STEPS`, `rank N repeat: STEPS`, `rank N drain: STEPS`. '#' behind a space begins a comment.
/// Without a name it is called "rows".
std::string printSchedule(const Schedule &schedule);

/// Reads what `printSchedule` writes; `file` is for errors, which name the line.
Schedule parseSchedule(std::string_view text, std::string_view file);

} // namespace pdc
