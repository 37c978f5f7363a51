#pragma once

#include "compiler/ir/Pdc.h"
#include "compiler/plan/Plan.h"

namespace pdc {

/// What the planner sees of a level-1 module: one PlanUnit per forward unit of @train, with the
/// seconds and bytes of everything whose origin it is.
PlanGraph makePlanGraph(mlir::ModuleOp module);

} // namespace pdc
