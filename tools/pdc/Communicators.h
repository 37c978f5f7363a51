#pragma once

#include "compiler/ir/Pdc.h"
#include "compiler/plan/Plan.h"

namespace pdc {

/// Chooses how the messages between GPUs are arranged, from the rows as the programs hold them: one
/// communicator per pair of ranks, unless that is not proven or makes the plan slower. Adds what
/// communicators take to the memory of the plan's stages. For programs of other devices it does
/// nothing.
void setCommunicators(Plan &plan, mlir::ModuleOp programs);

} // namespace pdc
