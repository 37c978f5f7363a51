#pragma once

#include "compiler/ir/Pdc.h"
#include "compiler/plan/Plan.h"

namespace pdc {

/// A bound, for planning, of what a process takes beside its arena once it trains, beyond a program
/// that has only been started: pages of the libraries' code, what they keep, the transport's
/// buffers.
constexpr int64_t libraryBytes = int64_t(7) << 20;

/// The same for the kernels that a program has.
int64_t libraryBytesOf(ir::ProgramOp program);

/// Puts into a plan what its stages take as they are laid out: the arena of their rank's program,
/// split among its stages, and what libraries take. Programs have arenas after plan-memory.
void setMemory(Plan &plan, mlir::ModuleOp programs);

} // namespace pdc
