#pragma once

#include "compiler/schedule/Play.h"

namespace pdc {

/// Of rows that stand still when so many iterations are played: throws pdc::Error that says which
/// rank waits for what of which other one, with a drawing that marks one of the steps that wait.
/// For rows without transfers, whose waits are those of their edges.
[[noreturn]] void refuseStall(const Schedule &schedule, std::span<const Edge> edges,
                              int64_t iterations);

} // namespace pdc
