#pragma once

#include "compiler/ir/Pdc.h"
#include "compiler/plan/Plan.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace pdc {

/// The unit of the plan that a unit is planned with, or -1.
using PlanIndex = llvm::function_ref<int(ir::UnitOp)>;

/// Adds what goes from one unit of the plan to another in a microbatch of @train: values of the
/// forward pass, gradients, and under asynchronous schedules weights that several units use.
void addPlanValues(mlir::func::FuncOp train, PlanIndex indexOf, PlanGraph &graph);

} // namespace pdc
