#pragma once

#include "codegen/LoopFunctions.h"
#include "compiler/ir/Pdc.h"

#include "mlir/Support/IndentedOstream.h"

#include <string>

namespace pdc {

/// The class `StageK` of one stage: its tasks with one line per unit, its kernels as members.
/// `loops` has those that are functions.
void printStageClass(mlir::raw_indented_ostream &os, ir::StageOp stage, LoopFunctions &loops);

/// `Stage0`.
std::string stageClass(ir::StageOp stage);

} // namespace pdc
