#pragma once

#include "compiler/plan/Plan.h"

#include "mlir/IR/BuiltinOps.h"

namespace pdc {

/// Gives the units of a plan graph, which is that of the level-1 module, by how much they are
/// slower while all other cores of the machine compute, where no profile says so: their kernels
/// share its memory.
void addEstimatedSlowdowns(PlanGraph &graph, mlir::ModuleOp module, llvm::StringRef device,
                           int threads);

} // namespace pdc
