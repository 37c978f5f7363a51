#pragma once

#include "compiler/ir/Pdc.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <string>
#include <vector>

namespace pdc {

/// Units of the forward pass that are planned as one.
struct UnitGroup {
  std::vector<ir::UnitOp> units; ///< in the order of the program
  std::string state;             ///< what they share, or lie between uses of; empty: a single unit
};

/// Groups these units, which stand in the order of the program, and orders the groups: each reads
/// of those before it alone. Units that bring the same state forward, as layers with running
/// statistics that a model uses several times, belong to one stage, since microbatches meet the
/// state in order; with them what lies on a path from one of them to another. `isState`: of a
/// memory.
std::vector<UnitGroup> groupByStates(llvm::ArrayRef<ir::UnitOp> units,
                                     llvm::function_ref<bool(ir::ReadOp)> isState);

} // namespace pdc
