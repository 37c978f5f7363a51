#include "compiler/interpreter/Interpreter.h"
#include "compiler/ir/Pdc.h"
#include "compiler/plan/Files.h"
#include "compiler/schedule/Schedules.h"
#include "passes/Passes.h"
#include "passes/Pipelines.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Transforms/Passes.h"
#include "testsuite/EveryCase.h"

#include <gtest/gtest.h>

#include <map>
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

  Module differentiated(bool asynchronous, bool tied = false,
                        const std::string &network = "levels.mlir") {
    std::string text = readTextFile(PDC_SOURCE_DIR "/testsuite/interpreter/" + network);
    if (tied)
      tie(text);
    Module module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
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

  /// The second convolution once more behind itself, with the same weight.
  static void tie(std::string &text) {
    auto insert = [&](const std::string &before, const std::string &reader,
                      const std::string &read) {
      size_t at = text.find(before);
      ASSERT_NE(at, std::string::npos);
      text.replace(text.find(reader, at), reader.size(), read);
      text.insert(at, "  %t = pdc.node \"Conv\" \"c3\"(%r2, %w2) {pads = array<i64: 1, 1, 1, 1>} : "
                      "(tensor<*xf32>, tensor<4x4x3x3xf32>) -> tensor<*xf32>\n");
    };
    insert("  %rand = pdc.read", "(%r2, %rand)", "(%t, %rand)");
    insert("  %g = pdc.node \"GlobalAveragePool\" \"gap\"(%r2)", "(%r2)", "(%t)");
  }

  Module units(mlir::ModuleOp module, const std::string &device = "cpu") {
    return run(module, [&](mlir::OpPassManager &passes) {
      FormUnitsOptions form;
      ChooseKernelsOptions choose;
      form.device = choose.device = device;
      passes.addPass(createLabelPhases());
      passes.addPass(mlir::createCanonicalizerPass());
      passes.addPass(mlir::createCSEPass());
      passes.addPass(createFormUnits(form));
      if (device == "cuda")
        passes.addPass(createFuseNormalisations());
      passes.addPass(createChooseKernels(choose));
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

  Module lower(mlir::ModuleOp formed, const std::shared_ptr<const Plan> &chosen) {
    return run(formed, [&](mlir::OpPassManager &passes) {
      buildCutPipeline(passes, chosen);
      buildStagedPipeline(passes, chosen);
      buildScheduledPipeline(passes, chosen);
    });
  }

  void expectSame(mlir::ModuleOp before, mlir::ModuleOp after, const char *what) {
    std::string difference;
    EXPECT_TRUE(computesTheSame(before, after, 1e-9, difference)) << what << ": " << difference;
  }

  /// After so many updates that every version has been used.
  void expectSameLater(mlir::ModuleOp one, mlir::ModuleOp other) {
    InterpreterInput input;
    input.updates = 9;
    std::map<std::string, Tensor> first = interpret(one, input), second = interpret(other, input);
    ASSERT_EQ(first.size(), second.size());
    for (const auto &[name, value] : first)
      // A metric is of as many microbatches as its stage runs ahead.
      for (size_t i = 0; i < value.data.size() && !name.starts_with("pdc."); ++i)
        EXPECT_NEAR(value.data[i], second.at(name).data[i], 1e-9) << name;
  }

  void expectLevelsOf(mlir::ModuleOp graph, mlir::ModuleOp formed,
                      const std::string &device = "cpu") {
    int number = 0;
    for (int stages : {1, 2, 3, 4, 5})
      for (const char *schedule : {"gpipe", "1f1b", "zb-h1", "zb-h2"})
        for (int64_t microbatches : {1, 2, 5}) {
          if (number++ % kEveryCase != 0)
            continue;
          SCOPED_TRACE(std::string(schedule) + ", stages " + std::to_string(stages) +
                       ", microbatches " + std::to_string(microbatches));
          auto chosen = plan(formed, stages, schedule, microbatches);
          chosen->device = device;
          auto level = [&](mlir::ModuleOp module, auto build) {
            return run(module, [&](mlir::OpPassManager &passes) { build(passes, chosen); });
          };
          Module cut = level(formed, buildCutPipeline);
          expectSame(graph, *cut, "cut");
          Module staged = level(*cut, buildStagedPipeline);
          expectSame(graph, *staged, "staged");
          expectSame(graph, *level(*staged, buildScheduledPipeline), "scheduled");
        }
  }

  /// A network's tasks for one GPU, after all levels of it have been held against each other.
  Module stagedOnGpu(const std::string &network) {
    Module graph = differentiated(false, false, network), formed = units(*graph, "cuda");
    expectLevelsOf(*graph, *formed, "cuda");
    auto whole = plan(*formed, 1, "1f1b", 2);
    whole->device = "cuda";
    return run(*formed, [&](mlir::OpPassManager &passes) {
      buildCutPipeline(passes, whole);
      buildStagedPipeline(passes, whole);
    });
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
  for (bool tied : {false, true}) {
    Module graph = differentiated(false, tied);
    expectLevelsOf(*graph, *units(*graph));
  }
}

/// On GPUs, where the gradients of relus add up those of biases.
TEST_F(Levels, RectifiedGradientsComputeTheGraph) {
  int sums = 0;
  stagedOnGpu("rectified.mlir")->walk([&](ir::UnitOp unit) {
    sums += unit.getKernel() && unit.getKernel()->getName() == "ReluGradientSum";
  });
  EXPECT_EQ(sums, 2);
}

/// On GPUs, where products become units with what stands beside them.
TEST_F(Levels, FusedProductsComputeTheGraph) {
  Module staged = stagedOnGpu("gelu.mlir");
  std::map<std::string, int> kernels;
  staged->walk([&](ir::UnitOp unit) {
    if (unit.getKernel() && unit.getKernel()->getName().ends_with("Product"))
      ++kernels[unit.getKernel()->getName().str()];
  });
  // Two GELUs, one of them evaluated as well; three biases; the last layer's product. A view stands
  // between that and its gradient's GELU.
  EXPECT_EQ(kernels, (std::map<std::string, int>{{"GeluGradientProduct", 2},
                                                 {"GeluProduct", 3},
                                                 {"MatrixProduct", 1},
                                                 {"SummedProduct", 3}}));
}

/// On GPUs, where normalisations add images and their gradients compute what relus let through.
TEST_F(Levels, NormalisationsComputeTheGraph) {
  Module graph = differentiated(false, false, "residual.mlir"), formed = units(*graph, "cuda");
  expectLevelsOf(*graph, *formed, "cuda");
  std::map<std::string, int> operators;
  formed->walk([&](ir::UnitOp unit) {
    if (unit.getKernel() && unit.getKernel()->getName().starts_with("BatchNormalization"))
      unit.walk([&](ir::NodeOp node) { ++operators[node.getOp().str()]; });
  });
  EXPECT_EQ(operators, (std::map<std::string, int>{{"Add", 2},
                                                   {"BatchNormApply", 1},
                                                   {"BatchNormInternal", 2},
                                                   {"BatchNormalization", 1},
                                                   {"BatchNormalizationGrad", 2},
                                                   {"Relu", 3},
                                                   {"ReluGrad", 2},
                                                   {"Sum", 1}}));
}

/// On GPUs, where kernels that normalise rows add what stands beside them.
TEST_F(Levels, FusedRowsComputeTheGraph) {
  Module staged = stagedOnGpu("rows.mlir");
  std::map<std::string, int> fields;
  staged->walk([&](ir::UnitOp unit) {
    if (unit.getKernel() && unit.getKernel()->getName().starts_with("LayerNormalization"))
      for (const char *field : {"addend", "keepsSum", "sumsBias", "terms"})
        fields[field] += unit.getKernel()->getFields().contains(field);
  });
  // Sums before two normalisations, one of them evaluated as well, whose sum nobody reads; behind
  // two gradients; and the biases of two.
  EXPECT_EQ(fields, (std::map<std::string, int>{
                        {"addend", 5}, {"keepsSum", 2}, {"sumsBias", 2}, {"terms", 0}}));
}

/// Several stages per rank, with what stays there: inputs that two of them read, skips, V turns.
TEST_F(Levels, SeveralStagesPerRankComputeTheGraph) {
  Module graph = differentiated(false), formed = units(*graph);
  struct Shape {
    const char *schedule;
    StagePlacement placement;
    int ranks, chunks;
    int64_t microbatches;
  };
  for (Shape shape :
       {Shape{"interleaved", StagePlacement::loop, 2, 2, 4},
        Shape{"interleaved", StagePlacement::loop, 2, 3, 2},
        Shape{"interleaved", StagePlacement::loop, 1, 3, 2},
        Shape{"zb-v", StagePlacement::fold, 2, 2, 5}, Shape{"zb-v", StagePlacement::fold, 3, 2, 4},
        Shape{"zb-v", StagePlacement::fold, 1, 2, 3}, Shape{"gpipe", StagePlacement::loop, 2, 2, 3},
        Shape{"1f1b", StagePlacement::fold, 2, 2, 3},
        Shape{"zb-h1", StagePlacement::loop, 2, 2, 3}}) {
    SCOPED_TRACE(testing::Message() << shape.schedule << ", ranks " << shape.ranks << ", chunks "
                                    << shape.chunks << ", microbatches " << shape.microbatches);
    auto chosen = plan(*formed, shape.ranks * shape.chunks, shape.schedule, shape.microbatches);
    Pipeline placed = placedPipeline(shape.placement, shape.ranks, shape.chunks, 1);
    for (PlanStage &stage : chosen->stages)
      stage.ranks = placed.ranksOfStage[stage.id];
    auto level = [&](mlir::ModuleOp module, auto build) {
      return run(module, [&](mlir::OpPassManager &passes) { build(passes, chosen); });
    };
    Module staged = level(*level(*formed, buildCutPipeline), buildStagedPipeline);
    expectSame(*graph, *staged, "staged");
    expectSame(*graph, *level(*staged, buildScheduledPipeline), "scheduled");
  }
}

/// Every read finds its version and its microbatch; with one stage nothing is stale.
TEST_F(Levels, PipedreamKeepsItsPromises) {
  for (bool tied : {false, true}) {
    Module graph = differentiated(true, tied), formed = units(*graph);
    for (int stages : {1, 2, 3, 4}) {
      SCOPED_TRACE("stages " + std::to_string(stages) + (tied ? ", tied" : ""));
      Module scheduled = lower(*formed, plan(*formed, stages, "pipedream", 1));
      if (stages == 1)
        expectSame(*graph, *scheduled, "scheduled");
      InterpreterInput input;
      input.updates = 9;
      EXPECT_NO_THROW(interpret(*scheduled, input));
    }
  }
}

/// Every stage reads what stood at stage 0 when a microbatch entered: no cut changes a result but
/// by its number of stages.
TEST_F(Levels, VerticalSyncDependsOnTheNumberOfStagesAlone) {
  for (bool tied : {false, true}) {
    Module formed = units(*differentiated(true, tied));
    for (int stages : {2, 3, 4}) {
      SCOPED_TRACE("stages " + std::to_string(stages) + (tied ? ", tied" : ""));
      auto scheduled = [&] {
        auto chosen = plan(*formed, stages, "pipedream", 1);
        Pipeline pipeline = straightPipeline(stages, 1);
        pipeline.verticalSync = true;
        chosen->schedule = pipedream(pipeline);
        return lower(*formed, chosen);
      };
      expectSameLater(*scheduled(), *scheduled());
    }
  }
}

/// Two versions make every gradient one update old, whatever the number of stages.
TEST_F(Levels, TwoVersionsComputeTheSameOnAnyNumberOfStages) {
  for (bool tied : {false, true}) {
    Module formed = units(*differentiated(true, tied));
    auto scheduled = [&](int stages) { return lower(*formed, plan(*formed, stages, "2bw", 4)); };
    Module one = scheduled(1);
    for (int stages : {2, 3, 4}) {
      SCOPED_TRACE("stages " + std::to_string(stages) + (tied ? ", tied" : ""));
      expectSameLater(*one, *scheduled(stages));
    }
  }
}

} // namespace pdc::test
