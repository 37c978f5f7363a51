#pragma once

#include "compiler/plan/Plan.h"
#include "tools/pdc/Batches.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <memory>
#include <set>
#include <string>

namespace pdc {

/// A module at level 1 and the plan that was made for it.
struct PlannedGraph {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::shared_ptr<const Plan> plan;
  std::shared_ptr<const PlanGraph> units; ///< what the plan was made from
  Batch batch;
  std::set<std::string> warnings; ///< of this graph
};

} // namespace pdc
