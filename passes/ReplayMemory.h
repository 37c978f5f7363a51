#pragma once

#include "passes/ScheduleRows.h"

namespace pdc {

/// Runs the rows of a program on an arena of shadow bytes, as the runtime would: training,
/// evaluation, training again. Throws Error when a unit, a send or a sum finds bytes that something
/// else has overwritten, when a unit overlaps itself without being in place, or when a write would
/// have to move bytes. Shares nothing with the passes that laid the arena out. The rows are those
/// of all programs.
void replayMemory(ir::ProgramOp program, const ReadRows &training, const ReadRows &evaluation);

} // namespace pdc
