#pragma once

#include "codegen/DeviceLoops.h"
#include "compiler/ir/Pdc.h"

#include "mlir/Support/IndentedOstream.h"

#include <string>
#include <vector>

namespace pdc {

/// The class `StageK` of one stage: its tasks with one line per unit, its kernels as members.
/// `loops` takes the loops of a program for a GPU; null: the CPU, whose loops stand where they run.
void printStageClass(mlir::raw_indented_ostream &os, ir::StageOp stage, DeviceLoops *loops);

/// A unit or accumulate with this integer attribute is followed by a call that records its time
/// under that number.
inline constexpr const char kUnitTimeAttribute[] = "pdc.unit_time";

/// Whether anything in `op` has its time recorded.
bool isMeasured(mlir::Operation *op);

/// `Stage0`.
std::string stageClass(ir::StageOp stage);

} // namespace pdc
