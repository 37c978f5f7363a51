#pragma once

#include "compiler/plan/Plan.h"

#include "mlir/Pass/PassManager.h"

#include <memory>
#include <string>
#include <vector>

namespace pdc {

/// What level 1 needs to know of the user's wishes.
struct GraphOptions : Target {
  /// As in `momentum,lr=0.1`.
  std::string optimizer = "sgd";
  std::vector<std::string> noDecay, lrScale;
  int vectorWidth = 16;
  /// profile.json with measured seconds, or none.
  std::string profile;
  int64_t microbatchSize = 0; ///< where the profile may be of another
  /// Off: the forward pass alone.
  bool trains = true;
};

/// Level 1: from the imported graph to units with kernels and costs, which the planner reads.
void buildGraphPipeline(mlir::OpPassManager &passes, const GraphOptions &options);

/// Level 2: each unit has the stage that the plan chose and each crossing value its cut.
void buildCutPipeline(mlir::OpPassManager &passes, std::shared_ptr<const Plan> plan);

/// Level 3: one program per rank, with the tasks of its stages.
void buildStagedPipeline(mlir::OpPassManager &passes, std::shared_ptr<const Plan> plan);

/// Level 4: rows, transfers, versions, homes and names; what the printer writes down.
void buildScheduledPipeline(mlir::OpPassManager &passes, std::shared_ptr<const Plan> plan);

} // namespace pdc
