#pragma once

#include "passes/PlanValues.h"

namespace pdc {

/// Whether a value lies in memory of its microbatch from the forward pass to the backward pass.
using IsStashed = llvm::function_ref<bool(mlir::Value)>;

/// Adds to the units of the plan what lives in their tasks and nowhere else while they run: values
/// of the forward pass that are not stashed, gradients, and values of @evaluate.
void addTemporaries(mlir::ModuleOp module, PlanIndex indexOf, IsStashed isStashed,
                    PlanGraph &graph);

} // namespace pdc
