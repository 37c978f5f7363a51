#pragma once

#include "codegen/LoopFunctions.h"
#include "compiler/ir/Pdc.h"

#include "mlir/Support/IndentedOstream.h"

namespace pdc {

/// Columns before a statement of a member function.
inline constexpr unsigned kIndent = 4;

/// The statements of a task: a line per unit, and a pointer for each tensor where it is first used.
void printTaskBody(mlir::raw_indented_ostream &os, ir::TaskOp task, LoopFunctions &loops);

} // namespace pdc
