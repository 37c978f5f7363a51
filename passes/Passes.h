#pragma once

#include "compiler/ir/Pdc.h"
#include "compiler/plan/Plan.h"

#include "mlir/Pass/Pass.h"

#include <memory>

namespace pdc {

#define GEN_PASS_DECL
#include "passes/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "passes/Passes.h.inc"

/// On a module whose units are measured, each by itself.
inline constexpr const char kMeasuresUnitsAttribute[] = "pdc.measures_units";

/// The same passes with a plan in memory instead of a file.
std::unique_ptr<mlir::Pass> createAssignStages(std::shared_ptr<const Plan> plan);
std::unique_ptr<mlir::Pass> createSendTiedWeights(std::shared_ptr<const Plan> plan);
std::unique_ptr<mlir::Pass> createDivideSums(std::shared_ptr<const Plan> plan);
std::unique_ptr<mlir::Pass> createHoldTiedWeights(std::shared_ptr<const Plan> plan);
std::unique_ptr<mlir::Pass> createOutlinePrograms(std::shared_ptr<const Plan> plan);
std::unique_ptr<mlir::Pass> createRecompute(std::shared_ptr<const Plan> plan);
std::unique_ptr<mlir::Pass> createSplitBackward(std::shared_ptr<const Plan> plan);
std::unique_ptr<mlir::Pass> createBuildSchedule(std::shared_ptr<const Plan> plan);

} // namespace pdc
