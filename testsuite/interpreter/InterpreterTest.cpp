#include "compiler/interpreter/Interpreter.h"
#include "compiler/Error.h"
#include "testsuite/interpreter/Modules.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

namespace pdc::test {

class Interpreter : public testing::Test {
protected:
  Interpreter() {
    context.loadDialect<ir::PdcDialect>();
    context.loadDialect<mlir::func::FuncDialect>();
  }

  mlir::OwningOpRef<mlir::ModuleOp> parse(const std::string &text) {
    auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
    EXPECT_TRUE(module) << text;
    return module;
  }

  std::map<std::string, Tensor> run(const std::string &text, const InterpreterInput &input = {}) {
    return interpret(*parse(text), input);
  }

  /// Empty when both compute the same.
  std::string difference(const std::string &before, const std::string &after) {
    std::string text;
    bool same = computesTheSame(*parse(before), *parse(after), 1e-12, text);
    EXPECT_EQ(same, text.empty());
    return text;
  }

  std::string refusal(const std::string &text, const InterpreterInput &input = {}) {
    try {
      run(text, input);
    } catch (const Error &error) {
      return error.what();
    }
    return "no refusal";
  }

  mlir::MLIRContext context;
};

static Tensor pair(double a, double b) { return {{ElementType::f32, {2}}, {a, b}}; }

/// loss = sum(w2 * w1 * x) / count, by hand.
TEST_F(Interpreter, TrainsAGraph) {
  InterpreterInput input;
  input.updates = 1;
  input.learningRate = 0.5;
  input.given = {{"x", {pair(1, 2), pair(3, 4)}}, {"w1", {pair(1, 2)}}, {"w2", {pair(3, 5)}}};
  auto contents = run(graphModule(), input);
  // d loss / d w1 = w2 * x summed over microbatches, divided by the 4 elements that count.
  EXPECT_EQ(contents.at("w1").data, pair(1 - 0.5 * 3 * 4 / 4, 2 - 0.5 * 5 * 6 / 4).data);
  EXPECT_EQ(contents.at("w2").data, pair(3 - 0.5 * 1 * 4 / 4, 5 - 0.5 * 2 * 6 / 4).data);
  EXPECT_EQ(contents.at("pdc.loss").data[0], 3 * 4 + 10 * 6);
  EXPECT_EQ(contents.at("pdc.loss_weight").data[0], 4);
  EXPECT_EQ(contents.size(), 4u);
}

TEST_F(Interpreter, DrawsTheSameEachTime) {
  EXPECT_EQ(run(graphModule()).at("w1").data, run(graphModule()).at("w1").data);
  InterpreterInput other;
  other.seed = 2;
  EXPECT_NE(run(graphModule()).at("w1").data, run(graphModule(), other).at("w1").data);
}

TEST_F(Interpreter, LevelsAgree) {
  EXPECT_EQ(difference(graphModule(), stagedModule()), "");
  EXPECT_EQ(difference(graphModule(), scheduledModule(synchronousRows())), "");
  EXPECT_EQ(difference(stagedModule(), scheduledModule(synchronousRows())), "");
}

TEST_F(Interpreter, FindsADifference) {
  std::string wrong = graphModule();
  size_t at = wrong.find("\"Mul\" \"dw1\"");
  wrong.replace(at, 5, "\"Sub\"");
  EXPECT_TRUE(difference(graphModule(), wrong).starts_with("memory 'pdc.loss': element 0 is "));
  std::string renamed = graphModule(), from = "@\"pdc.loss\"", to = "@\"pdc.lost\"";
  for (size_t i = renamed.find(from); i != std::string::npos; i = renamed.find(from))
    renamed.replace(i, from.size(), to);
  EXPECT_EQ(difference(graphModule(), renamed), "memory 'pdc.loss': is gone after");
}

/// Stage s of p uses version max(0, t - p + 1 + s) for microbatch t; here by a recurrence of its
/// own.
TEST_F(Interpreter, StashesWeights) {
  InterpreterInput input;
  input.updates = 5;
  input.learningRate = 0.25;
  for (int i = 0; i < 5; ++i)
    input.given["x"].push_back(pair(1 + i, 2 - i));
  input.given["w1"] = {pair(1, 2)};
  input.given["w2"] = {pair(3, 5)};
  auto contents = run(scheduledModule(asynchronousRows(), 2), input);
  std::vector<std::vector<double>> w1 = {{1, 2}}, w2 = {{3, 5}};
  for (int t = 0; t < 5; ++t) {
    size_t early = std::max(0, t - 1);
    auto next1 = w1.back(), next2 = w2.back();
    for (size_t e = 0; e < 2; ++e) {
      double x = input.given["x"][t].data[e];
      next1[e] -= 0.25 * w2[t][e] * x;
      next2[e] -= 0.25 * w1[early][e] * x;
    }
    w1.push_back(next1);
    w2.push_back(next2);
  }
  for (size_t e = 0; e < 2; ++e) {
    EXPECT_DOUBLE_EQ(contents.at("w1").data[e], w1[5][e]);
    EXPECT_DOUBLE_EQ(contents.at("w2").data[e], w2[5][e]);
  }
}

TEST_F(Interpreter, RefusesALostVersion) {
  InterpreterInput input;
  input.updates = 5;
  // Stage 0 reads the version before the latest again in its backward pass.
  std::string text = refusal(scheduledModule(asynchronousRows(), 1), input);
  EXPECT_EQ(text,
            "rank_0: stage 0, backward of microbatch 1: memory 'w1' holds version 1, expected 0");
}

TEST_F(Interpreter, RefusesAnOverwrittenSlot) {
  std::string text = refusal(scheduledModule(synchronousRows(), 1, "0"));
  EXPECT_NE(text.find("backward of microbatch 0: memory 'x0' holds microbatch 1 in slot 0"),
            std::string::npos)
      << text;
}

TEST_F(Interpreter, RefusesADeadlock) {
  Rows rows = synchronousRows();
  // Rank 1 sends its gradient before it has received the activation of the next microbatch, for
  // which rank 0 waits.
  rows.rank0 = {"F 0", "> y 0", "< dy 0", "F 1", "> y 1", "< dy 1", "B 0", "B 1", "S", "U 1"};
  rows.rank1 = {"< y 0", "F 0", "< y 1", "F 1", "B 0", "> dy 0", "B 1", "> dy 1", "S", "U 1"};
  std::string text = refusal(scheduledModule(rows));
  EXPECT_TRUE(text.starts_with("the ranks wait for each other: rank 0 at ")) << text;
}

TEST_F(Interpreter, RefusesMixedRates) {
  std::string text = graphModule();
  size_t at = text.find("%g1 = pdc.read @\"w1/gradient\" : tensor<2xf32>");
  ASSERT_NE(at, std::string::npos);
  std::string mixed = text;
  mixed.replace(mixed.find("(%w1, %g1, "), 11, "(%w1, %dw1, ");
  EXPECT_NE(refusal(mixed).find("mixes values of one microbatch"), std::string::npos);
}

TEST_F(Interpreter, RefusesTheUnknown) {
  std::string text = graphModule();
  text.replace(text.find("\"Mul\""), 5, "\"Mud\"");
  EXPECT_EQ(refusal(text), "node 'a': there is no operator 'Mud'");
}

} // namespace pdc::test
