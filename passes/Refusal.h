#pragma once

#include "compiler/ir/Pdc.h"

#include "llvm/ADT/STLFunctionalExtras.h"

namespace pdc {

/// Runs `body`; what it throws becomes a diagnostic at `op`. False when it threw.
bool refuseAt(mlir::Operation *op, llvm::function_ref<void()> body);

/// Runs the body of a pass on a module whose form every pass relies on: functions are one block
/// without arguments and results, each program runs on one rank and has stages, and ranks and
/// stages are numbered from 0 without gaps. Refuses other modules and what the body throws with a
/// diagnostic.
llvm::LogicalResult runChecked(mlir::ModuleOp module,
                               llvm::function_ref<llvm::LogicalResult()> body);

} // namespace pdc
