#pragma once

#include "compiler/plan/Plan.h"

#include "llvm/ADT/StringRef.h"

#include <functional>
#include <memory>

namespace mlir {
class Operation;
} // namespace mlir

namespace pdc {

/// The plan that a pass applies: the one in memory, else the file's, else null.
std::shared_ptr<const Plan> choosePlan(std::shared_ptr<const Plan> plan, const std::string &file);

/// The rank of each stage: the plan's, else one stage per rank.
std::vector<int> ranksOfStages(const Plan *plan, int stages);

/// Runs `body`; an Error that it throws becomes a diagnostic at `op`. False when it threw.
bool refuseAt(mlir::Operation *op, const std::function<void()> &body);

} // namespace pdc
