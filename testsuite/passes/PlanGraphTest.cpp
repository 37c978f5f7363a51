#include "passes/PlanGraph.h"
#include "compiler/ir/Pdc.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

namespace pdc::test {

class PlanGraphTest : public testing::Test {
protected:
  PlanGraphTest() {
    context.loadDialect<ir::PdcDialect>();
    context.loadDialect<mlir::func::FuncDialect>();
    module = mlir::parseSourceFile<mlir::ModuleOp>(
        PDC_SOURCE_DIR "/testsuite/passes/outline-programs.mlir", &context);
  }

  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

TEST_F(PlanGraphTest, HoldsEveryForwardUnitWithWhatComesFromIt) {
  ASSERT_TRUE(module);
  module->walk([&](ir::UnitOp unit) { unit.setSeconds(llvm::APFloat(1.0)); });
  PlanGraph graph = makePlanGraph(*module);
  ASSERT_EQ(graph.units.size(), 4u); // flatten, fc1, fc2, loss
  const PlanUnit &fc1 = graph.units[1];
  EXPECT_EQ(fc1.name, "fc1");
  EXPECT_EQ(fc1.nodes, (std::vector<std::string>{"fc1", "relu1"}));
  EXPECT_EQ(fc1.forwardSeconds, 1);
  EXPECT_EQ(fc1.backwardInputSeconds, 1);  // relu1/grad
  EXPECT_EQ(fc1.backwardWeightSeconds, 1); // fc1/grad/weight
  EXPECT_EQ(fc1.updateSeconds, 1);
  EXPECT_EQ(fc1.parameterBytes, 16 * 8 * 4);
  EXPECT_EQ(fc1.gradientBytes, 16 * 8 * 4);
  // relu1, which it makes, and the image under the view that its weight gradient reads.
  EXPECT_EQ(fc1.stashBytes, 4 * 16 * 4 + 4 * 8 * 4);
}

TEST_F(PlanGraphTest, GivesNoUnitToWhatOnlyReadsLabels) {
  ASSERT_TRUE(module);
  ir::UnitOp loss;
  module->walk([&](ir::UnitOp unit) {
    if (unit.getName() == "loss" && !loss)
      loss = unit;
  });
  mlir::OpBuilder builder(loss->getBlock()->getTerminator());
  auto weight = builder.create<ir::UnitOp>(
      loss.getLoc(), mlir::TypeRange{loss.getResult(0).getType()},
      mlir::ValueRange{loss.getOperand(1)}, "weight", "weight", ir::Phase::Forward,
      ir::Rate::Microbatch, ir::KernelAttr(), mlir::FloatAttr(), mlir::FloatAttr(),
      mlir::FloatAttr(), mlir::IntegerAttr(), mlir::ArrayAttr(), mlir::DenseI64ArrayAttr(),
      mlir::StringAttr(), mlir::ArrayAttr());
  mlir::Block &body = weight.getBody().emplaceBlock();
  mlir::Value labels = body.addArgument(loss.getOperand(1).getType(), loss.getLoc());
  builder.setInsertionPointToEnd(&body);
  auto node = builder.create<ir::NodeOp>(
      loss.getLoc(), weight.getResultTypes(), mlir::ValueRange{labels}, "LossWeight", "weight",
      builder.getDictionaryAttr({}), mlir::StringAttr(), ir::PhaseAttr(), ir::RateAttr());
  builder.create<ir::YieldOp>(loss.getLoc(), node.getResults());
  PlanGraph graph = makePlanGraph(*module);
  ASSERT_EQ(graph.units.size(), 4u);
  EXPECT_EQ(graph.units[3].nodes, (std::vector<std::string>{"loss", "weight"}));
}

TEST_F(PlanGraphTest, HoldsEveryValueBetweenUnits) {
  ASSERT_TRUE(module);
  PlanGraph graph = makePlanGraph(*module);
  ASSERT_EQ(graph.values.size(), 3u);
  EXPECT_EQ(graph.values[0].name, "flatten");
  EXPECT_FALSE(graph.values[0].hasGradient);
  EXPECT_EQ(graph.values[1].name, "relu1");
  EXPECT_EQ(graph.values[1].producer, 1);
  EXPECT_EQ(graph.values[1].consumers, std::vector<int>{2});
  EXPECT_EQ(graph.values[1].bytes, 4 * 16 * 4);
  EXPECT_TRUE(graph.values[1].hasGradient);
}

} // namespace pdc::test
