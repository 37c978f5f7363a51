#pragma once

#include "codegen/Kernels.h"
#include "codegen/LoopFunctions.h"
#include "compiler/ir/Pdc.h"

#include "mlir/Support/IndentedOstream.h"

namespace pdc {

/// Columns before a statement of a member function.
inline constexpr unsigned kIndent = 4;

/// The member function of a task: a line per unit, and a pointer for each tensor where it is first
/// used. A task of very many units calls functions that have some of them each, since what
/// compilers take for a function grows with its square.
void printTaskFunctions(mlir::raw_indented_ostream &os, ir::TaskOp task, llvm::StringRef name,
                        const StageKernels &kernels, LoopFunctions &loops);

} // namespace pdc
