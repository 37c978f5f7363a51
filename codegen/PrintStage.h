#pragma once

#include "codegen/DeviceLoops.h"
#include "compiler/ir/Pdc.h"

#include "mlir/Support/IndentedOstream.h"

#include <string>

namespace pdc {

/// The class `StageK` of one stage: its tasks with one line per unit, its kernels as members.
/// `loops` takes the loops of a program for a GPU; null: the CPU, whose loops stand where they run.
void printStageClass(mlir::raw_indented_ostream &os, ir::StageOp stage, DeviceLoops *loops);

/// `Stage0`.
std::string stageClass(ir::StageOp stage);

} // namespace pdc
