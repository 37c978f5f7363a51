#pragma once

#include "compiler/cost/Device.h"
#include "compiler/ir/Pdc.h"
#include "compiler/operators/Operator.h"

namespace pdc {

/// What the kernel does of a unit that costs so much by its operators' rules: channels that are
/// padded to the blocks of layouts, tiles and transformed filters of Winograd convolutions,
/// functions in loops.
KernelWork workOf(ir::UnitOp unit, const Cost &cost);

} // namespace pdc
