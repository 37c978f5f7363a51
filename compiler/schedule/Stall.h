#pragma once

#include "compiler/schedule/Play.h"

namespace pdc {

/// Of a play that stands still: throws pdc::Error that says which rank waits for what of which
/// other one, with a drawing that marks one of the steps that wait. For rows without transfers,
/// whose waits are those of their edges.
[[noreturn]] void refuseStall(const Schedule &schedule, std::span<const Edge> edges,
                              const Timeline &timeline, int64_t iterations);

} // namespace pdc
