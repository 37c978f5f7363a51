#pragma once

#include "compiler/ir/Pdc.h"
#include "compiler/plan/Plan.h"

namespace pdc {

/// What a process takes beside its arena once it trains, beyond a program that has only been
/// started: pages of the libraries' code, what they keep per kernel, the transport's buffers.
/// Measured by tools/bench/memory with Debian's oneDNN 2.6 and Open MPI 4.1.
constexpr int64_t libraryBytes = int64_t(4864) << 10;
constexpr int64_t libraryBytesPerKernel = int64_t(24) << 10;

/// Puts into a plan what its stages take as they are laid out: the arena of their rank's program,
/// split among its stages, and what libraries take. Programs have arenas after plan-memory.
void setMemory(Plan &plan, mlir::ModuleOp programs);

} // namespace pdc
