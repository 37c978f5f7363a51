#pragma once

#include "passes/PlanValues.h"
#include "passes/TemporaryMemory.h"

namespace pdc {

/// Gives each unit of the plan the bytes of a microbatch that it keeps from one task to another,
/// and those that live in its tasks; and says of the values that go to other units which of them it
/// keeps anyway. Returns what lives while each unit of the module runs.
LiveBytes addActivations(mlir::func::FuncOp train, PlanIndex indexOf, PlanGraph &graph);

} // namespace pdc
