#pragma once

#include "compiler/ir/Pdc.h"
#include "compiler/plan/Plan.h"

#include <string>

namespace pdc {

/// The sources of one program: `stage_K.cpp`, and the loops of `stage_K.cu` for a GPU (empty where
/// there are none).
struct ProgramSources {
  std::string host, device;
};

/// The C++ source of one program of level 4: what one rank runs, readable from top to bottom. It
/// prints what the IR says and decides nothing. `hash` identifies the plan in all its programs.
/// Throws Error where a pass of level 4 has not run.
ProgramSources printProgram(ir::ProgramOp program, const Plan &plan, const std::string &hash);

/// Whether the plan's programs run on GPUs.
bool isForCuda(const Plan &plan);

/// The number K in `stage_K`: the program's place in its module.
int programNumber(ir::ProgramOp program);

} // namespace pdc
