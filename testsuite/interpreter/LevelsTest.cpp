#include "compiler/interpreter/Interpreter.h"
#include "compiler/ir/Pdc.h"
#include "passes/Passes.h"
#include "passes/Pipelines.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Transforms/Passes.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

/// What a pass computes before it computes after it, from the graph to the rows of every rank.
namespace pdc::test {

using Module = mlir::OwningOpRef<mlir::ModuleOp>;

class Levels : public testing::Test {
protected:
  Levels() {
    context.loadDialect<ir::PdcDialect>();
    context.loadDialect<mlir::func::FuncDialect>();
  }

  Module run(mlir::ModuleOp module, const std::function<void(mlir::OpPassManager &)> &build) {
    Module copy(module.clone());
    mlir::PassManager passes(&context);
    build(passes);
    EXPECT_TRUE(mlir::succeeded(passes.run(*copy)));
    return copy;
  }

  Module differentiated(bool asynchronous) {
    Module module = mlir::parseSourceFile<mlir::ModuleOp>(
        PDC_SOURCE_DIR "/testsuite/interpreter/levels.mlir", &context);
    EXPECT_TRUE(module);
    if (asynchronous)
      (*module)->setAttr("pdc.asynchronous", mlir::UnitAttr::get(&context));
    return run(*module, [](mlir::OpPassManager &passes) {
      passes.addPass(createInferShapes());
      passes.addPass(createDifferentiate());
      AppendOptimizerOptions options;
      options.optimizer = "momentum,lr=0.1,weight_decay=0.01";
      passes.addPass(createAppendOptimizer(options));
    });
  }

  Module units(mlir::ModuleOp module) {
    return run(module, [](mlir::OpPassManager &passes) {
      passes.addPass(createLabelPhases());
      passes.addPass(mlir::createCanonicalizerPass());
      passes.addPass(mlir::createCSEPass());
      passes.addPass(createFormUnits());
      passes.addPass(createChooseKernels());
      passes.addPass(createEstimateCost());
    });
  }

  /// The forward units in order, split before drawn ones.
  std::shared_ptr<Plan> plan(mlir::ModuleOp module, int stages, const std::string &schedule,
                             int64_t microbatches) {
    std::vector<std::string> names;
    for (auto unit : module.lookupSymbol<mlir::func::FuncOp>("train").getOps<ir::UnitOp>())
      if (unit.getPhase() == ir::Phase::Forward && unit.getName() == unit.getOrigin())
        names.push_back(unit.getName().str());
    std::set<size_t> starts = {0};
    while (starts.size() < static_cast<size_t>(stages))
      starts.insert(draw() % names.size());
    auto result = std::make_shared<Plan>();
    result->scheduleName = schedule;
    result->microbatches = microbatches;
    for (size_t i = 0; i < names.size(); ++i) {
      if (starts.contains(i)) {
        PlanStage stage;
        stage.id = static_cast<int>(result->stages.size());
        stage.ranks = {stage.id};
        result->stages.push_back(stage);
      }
      result->stages.back().units.push_back(names[i]);
    }
    return result;
  }

  void expectSame(mlir::ModuleOp before, mlir::ModuleOp after, const char *what) {
    std::string difference;
    EXPECT_TRUE(computesTheSame(before, after, 1e-9, difference)) << what << ": " << difference;
  }

  mlir::MLIRContext context;
  std::mt19937 draw;
};

TEST_F(Levels, UnitsComputeTheGraph) {
  for (bool asynchronous : {false, true}) {
    Module graph = differentiated(asynchronous);
    expectSame(*graph, *units(*graph), "units");
  }
}

TEST_F(Levels, StagesAndRowsComputeTheGraph) {
  Module graph = differentiated(false), formed = units(*graph);
  for (int stages : {1, 2, 3, 4, 5})
    for (const char *schedule : {"gpipe", "1f1b", "zb-h1", "zb-h2"})
      for (int64_t microbatches : {1, 2, 5}) {
        SCOPED_TRACE(std::string(schedule) + ", stages " + std::to_string(stages) +
                     ", microbatches " + std::to_string(microbatches));
        auto chosen = plan(*formed, stages, schedule, microbatches);
        auto level = [&](mlir::ModuleOp module, auto build) {
          return run(module, [&](mlir::OpPassManager &passes) { build(passes, chosen); });
        };
        Module cut = level(*formed, buildCutPipeline);
        expectSame(*graph, *cut, "cut");
        Module staged = level(*cut, buildStagedPipeline);
        expectSame(*graph, *staged, "staged");
        expectSame(*graph, *level(*staged, buildScheduledPipeline), "scheduled");
      }
}

/// Every read finds its version and its microbatch; with one stage nothing is stale.
TEST_F(Levels, PipedreamKeepsItsPromises) {
  Module graph = differentiated(true), formed = units(*graph);
  for (int stages : {1, 2, 3, 4}) {
    SCOPED_TRACE("stages " + std::to_string(stages));
    auto chosen = plan(*formed, stages, "pipedream", 1);
    Module scheduled = run(*formed, [&](mlir::OpPassManager &passes) {
      buildCutPipeline(passes, chosen);
      buildStagedPipeline(passes, chosen);
      buildScheduledPipeline(passes, chosen);
    });
    if (stages == 1)
      expectSame(*graph, *scheduled, "scheduled");
    InterpreterInput input;
    input.updates = 9;
    EXPECT_NO_THROW(interpret(*scheduled, input));
  }
}

} // namespace pdc::test
