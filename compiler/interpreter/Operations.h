#pragma once

#include "compiler/interpreter/Machine.h"

namespace pdc::interpreter {

/// Runs operations in order; values live no longer than this call.
void runOperations(Machine &machine, llvm::ArrayRef<mlir::Operation *> operations, const Run &run);

} // namespace pdc::interpreter
