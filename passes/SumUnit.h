#pragma once

#include "compiler/devices/Device.h"
#include "compiler/plan/Plan.h"
#include "passes/Nodes.h"

namespace pdc {

/// What kernels are chosen by for units that are added behind the planner.
DeviceOptions deviceOf(const Plan *plan);

/// A unit with a kernel that adds up `terms`, all of one type, or copies the only one.
ir::UnitOp createSum(mlir::OpBuilder &builder, mlir::Location location, llvm::StringRef name,
                     const UnitPlace &place, mlir::ValueRange terms, const DeviceOptions &device);

} // namespace pdc
