#include "passes/PlanGraph.h"
#include "compiler/ir/Pdc.h"

#include "mlir/AsmParser/AsmParser.h"
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

  /// A unit of one node in the forward pass.
  static ir::UnitOp makeUnit(mlir::OpBuilder &builder, mlir::StringRef op, mlir::StringRef name,
                             mlir::Value operand, mlir::Type result) {
    mlir::Location location = operand.getLoc();
    auto unit = builder.create<ir::UnitOp>(
        location, mlir::TypeRange{result}, mlir::ValueRange{operand}, name, name,
        ir::Phase::Forward, ir::Rate::Microbatch, ir::KernelAttr(), mlir::FloatAttr(),
        mlir::FloatAttr(), mlir::FloatAttr(), mlir::IntegerAttr(), mlir::ArrayAttr(),
        mlir::DenseI64ArrayAttr(), mlir::DenseI64ArrayAttr(), mlir::StringAttr(),
        mlir::ArrayAttr());
    mlir::Block &body = unit.getBody().emplaceBlock();
    mlir::Value argument = body.addArgument(operand.getType(), location);
    mlir::OpBuilder inside = mlir::OpBuilder::atBlockEnd(&body);
    auto node = inside.create<ir::NodeOp>(
        location, unit.getResultTypes(), mlir::ValueRange{argument}, op, name,
        inside.getDictionaryAttr({}), mlir::StringAttr(), ir::PhaseAttr(), ir::RateAttr());
    inside.create<ir::YieldOp>(location, node.getResults());
    return unit;
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
  EXPECT_EQ(fc1.stashBytes, 4 * 16 * 4); // relu1, which it makes
  EXPECT_EQ(fc1.inputBytes, 4 * 8 * 4);  // the image under the view that it reads
  EXPECT_EQ(graph.units[0].inputBytes, 0);
}

/// Each value from the unit that makes it to its last reader, where it is not kept anyway and lies
/// over no other one.
TEST_F(PlanGraphTest, KnowsWhatLivesInTasks) {
  ASSERT_TRUE(module);
  const int64_t hidden = 4 * 16 * 4, scores = 4 * 3 * 4;
  const PlanGraph graph = makePlanGraph(*module);
  EXPECT_EQ(graph.units[0].temporaryBytes, 0); // a view
  // relu1/grad lies over what it reads, fc2/grad/input; relu1 itself is kept.
  EXPECT_EQ(graph.units[1].temporaryBytes, hidden);
  // fc2/grad/input; loss/grad lies over log-probabilities, which are kept, and kernels add
  // fc2/grad/weight where it is summed.
  EXPECT_EQ(graph.units[2].temporaryBytes, hidden);
  // The loss: log-probabilities lie over scores.
  EXPECT_EQ(graph.units[3].temporaryBytes, 4);
  // Of @evaluate, where nothing is kept.
  EXPECT_EQ(graph.units[1].evaluationTemporaryBytes, hidden);
  EXPECT_EQ(graph.units[2].evaluationTemporaryBytes, hidden + scores);
  EXPECT_EQ(graph.units[3].evaluationTemporaryBytes, scores + 4);
  // Of kernels that do not write over what they read.
  auto other = mlir::cast<ir::KernelAttr>(mlir::parseAttribute(
      R"(#pdc.kernel<"Other", {}, workspace = 0, accumulates = false>)", &context));
  module->walk([&](ir::UnitOp unit) {
    if (unit.getKernel() && unit.getKernel()->getName() == "Elementwise")
      unit.setKernelAttr(other);
  });
  const PlanGraph apart = makePlanGraph(*module);
  EXPECT_EQ(apart.units[1].temporaryBytes, 2 * hidden);
  EXPECT_EQ(apart.units[2].temporaryBytes, scores + hidden);
  EXPECT_EQ(apart.units[3].evaluationTemporaryBytes, 2 * scores + 4);
}

/// Weight gradients that run apart find activations and input gradients, and nothing else is kept.
TEST_F(PlanGraphTest, KnowsWhatHalvesLeave) {
  ASSERT_TRUE(module);
  module->walk([](ir::UnitOp unit) {
    if (unit.getPhase() == ir::Phase::Backward)
      unit.setPhase(unit.getName().ends_with("/weight") ? ir::Phase::BackwardWeight
                                                        : ir::Phase::BackwardInput);
  });
  const PlanGraph graph = makePlanGraph(*module);
  const PlanUnit &fc1 = graph.units[1], &loss = graph.units[3];
  const int64_t hidden = 4 * 16 * 4, scores = 4 * 3 * 4;
  EXPECT_EQ(fc1.stashBytes, hidden);
  EXPECT_EQ(fc1.inputStashBytes, 0);   // fc2/grad/weight reads relu1
  EXPECT_EQ(fc1.halfwayBytes, hidden); // relu1/grad
  EXPECT_EQ(loss.stashBytes, scores);  // log-probabilities
  EXPECT_EQ(loss.inputStashBytes, scores);
  EXPECT_EQ(loss.freedStashBytes, scores);
  EXPECT_EQ(loss.halfwayBytes, scores); // loss/grad
  // fc2/grad/input, over which relu1/grad lies, is kept with it.
  EXPECT_EQ(fc1.temporaryBytes, hidden);
  EXPECT_EQ(fc1.splitTemporaryBytes, 0);
}

/// They are held once, of however many versions of the weights.
TEST_F(PlanGraphTest, CountsConstantsApart) {
  ASSERT_TRUE(module);
  module->walk([](ir::MemoryOp memory) {
    if (memory.getSymName() == "fc1.weight")
      memory.setRole(ir::Role::Constant);
  });
  const PlanGraph graph = makePlanGraph(*module);
  EXPECT_EQ(graph.units[1].parameterBytes, 0);
  EXPECT_EQ(graph.units[1].constantBytes, 16 * 8 * 4);
  EXPECT_EQ(graph.units[1].fixedBytes(), 2 * 16 * 8 * 4);
}

/// Each stage with one of their readers holds them.
TEST_F(PlanGraphTest, KnowsWhoReadsTheSame) {
  ASSERT_TRUE(module);
  auto shared = module->lookupSymbol<ir::MemoryOp>("fc1.weight");
  mlir::Value read;
  module->walk([&](ir::UnitOp unit) {
    if (unit.getName() == "fc1")
      read = unit.getOperand(1);
    else if (unit.getName() == "fc2")
      unit.setOperand(1, read);
  });
  const int64_t bytes = 16 * 8 * 4;
  for (const auto &[role, ofVersion] :
       {std::pair{ir::Role::Constant, int64_t{0}}, std::pair{ir::Role::Derived, bytes}}) {
    shared.setRole(role);
    const PlanGraph graph = makePlanGraph(*module);
    EXPECT_EQ(graph.units[1].parameterBytes, ofVersion);
    EXPECT_EQ(graph.units[1].constantBytes, bytes - ofVersion);
    EXPECT_EQ(graph.units[2].constantBytes, 0);
    ASSERT_EQ(graph.sharedReads.size(), 1u);
    EXPECT_EQ(graph.sharedReads[0].units, (std::vector<int>{1, 2}));
    EXPECT_EQ(graph.sharedReads[0].parameterBytes, ofVersion);
    EXPECT_EQ(graph.sharedReads[0].constantBytes, bytes - ofVersion);
  }
}

/// In as many steps as there are units, not as there are ways through them.
TEST_F(PlanGraphTest, FollowsWhatIsPrepared) {
  ASSERT_TRUE(module);
  auto constant = module->lookupSymbol<ir::MemoryOp>("fc1.weight");
  constant.setRole(ir::Role::Constant);
  module->walk([&](ir::UnitOp unit) {
    if (unit.getName() != "fc1")
      return;
    mlir::OpBuilder builder(unit);
    mlir::Value value = unit.getOperand(1);
    for (int i = 0; i < 64; ++i) {
      auto prepared = makeUnit(builder, "Neg", "step" + std::to_string(i), value, value.getType());
      prepared.setPhase(ir::Phase::Prepare);
      prepared->insertOperands(1, {value});
      value = prepared.getResult(0);
    }
    unit.setOperand(1, value);
  });
  const PlanGraph graph = makePlanGraph(*module);
  ASSERT_EQ(graph.units.size(), 4u);
  EXPECT_EQ(graph.units[1].constantBytes, 16 * 8 * 4);
}

TEST_F(PlanGraphTest, GivesNoUnitToWhatOnlyReadsLabels) {
  ASSERT_TRUE(module);
  ir::UnitOp loss;
  module->walk([&](ir::UnitOp unit) {
    if (unit.getName() == "loss" && !loss)
      loss = unit;
  });
  mlir::OpBuilder builder(loss->getBlock()->getTerminator());
  makeUnit(builder, "LossWeight", "weight", loss.getOperand(1), loss.getResult(0).getType());
  PlanGraph graph = makePlanGraph(*module);
  ASSERT_EQ(graph.units.size(), 4u);
  EXPECT_EQ(graph.units[3].nodes, (std::vector<std::string>{"loss", "weight"}));
}

/// Labels that another unit gives a new shape lead to it; its own rank reports it with the loss.
TEST_F(PlanGraphTest, PlansTheWeightOfTheLossWithTheLoss) {
  ASSERT_TRUE(module);
  ir::UnitOp loss;
  module->walk([&](ir::UnitOp unit) {
    if (unit.getName() == "loss" && !loss)
      loss = unit;
  });
  auto sum = module->lookupSymbol<ir::MemoryOp>("pdc.loss");
  mlir::OpBuilder builder(sum);
  mlir::cast<ir::MemoryOp>(builder.clone(*sum)).setSymName("pdc.loss_weight");
  builder.setInsertionPoint(loss->getBlock()->getTerminator());
  mlir::Value labels = loss.getOperand(1);
  ir::UnitOp flat = makeUnit(builder, "Identity", "flat", labels, labels.getType());
  ir::UnitOp weight =
      makeUnit(builder, "LossWeight", "weight", flat.getResult(0), loss.getResult(0).getType());
  builder.create<ir::AccumulateOp>(loss.getLoc(), weight.getResult(0), "pdc.loss_weight");
  PlanGraph graph = makePlanGraph(*module);
  ASSERT_EQ(graph.units.size(), 5u);
  EXPECT_EQ(graph.units[3].nodes, (std::vector<std::string>{"loss", "weight"}));
  EXPECT_EQ(graph.units[4].nodes, (std::vector<std::string>{"flat"}));
}

TEST_F(PlanGraphTest, HoldsEveryValueBetweenUnits) {
  ASSERT_TRUE(module);
  PlanGraph graph = makePlanGraph(*module);
  ASSERT_EQ(graph.values.size(), 3u);
  EXPECT_EQ(graph.values[0].name, "flatten");
  EXPECT_EQ(graph.values[1].name, "relu1");
  EXPECT_EQ(graph.values[1].producer, 1);
  EXPECT_EQ(graph.values[1].consumers, std::vector<int>{2});
  EXPECT_EQ(graph.values[1].bytes, 4 * 16 * 4);
}

TEST_F(PlanGraphTest, HoldsEveryGradientBetweenUnits) {
  ASSERT_TRUE(module);
  PlanGraph graph = makePlanGraph(*module);
  ASSERT_EQ(graph.gradients.size(), 2u); // none goes to flatten, which has no weights in front
  EXPECT_EQ(graph.gradients[0].name, "loss/grad");
  EXPECT_EQ(graph.gradients[0].producer, 3);
  EXPECT_EQ(graph.gradients[0].consumers, std::vector<int>{2});
  EXPECT_EQ(graph.gradients[1].producer, 2);
  EXPECT_EQ(graph.gradients[1].consumers, std::vector<int>{1});
  EXPECT_EQ(graph.gradients[1].bytes, 4 * 16 * 4);
}

TEST_F(PlanGraphTest, GradientsPassChangesOfLayoutBy) {
  ASSERT_TRUE(module);
  ir::UnitOp fc2;
  module->walk([&](ir::UnitOp unit) {
    if (unit.getName() == "fc2" && !fc2)
      fc2 = unit;
  });
  mlir::OpBuilder builder(fc2);
  mlir::Value relu = fc2.getOperand(0);
  ir::UnitOp reorder = makeUnit(builder, "Reorder", "relu1/reorder", relu, relu.getType());
  fc2.setOperand(0, reorder.getResult(0));
  PlanGraph graph = makePlanGraph(*module);
  ASSERT_EQ(graph.units.size(), 5u);
  ASSERT_EQ(graph.values.size(), 4u);
  EXPECT_EQ(graph.values[1].name, "relu1");
  EXPECT_EQ(graph.values[1].consumers, (std::vector<int>{2, 3})); // 3: for its weight's gradient
  EXPECT_EQ(graph.values[2].name, "relu1/reorder");
  ASSERT_EQ(graph.gradients.size(), 2u);
  EXPECT_EQ(graph.gradients[1].producer, 3);
  EXPECT_EQ(graph.gradients[1].consumers, std::vector<int>{1});
}

} // namespace pdc::test
