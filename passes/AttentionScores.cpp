#include "passes/AttentionScores.h"

#include "compiler/operators/Rules.h"

using namespace mlir;
using namespace pdc;
using namespace pdc::ir;

namespace {

/// Reads scores from the softmax back to the product.
class ScoresBehind {
public:
  static bool readUsed(Value value, Scores &scores) {
    auto node = value.getDefiningOp<NodeOp>();
    if (!node || shapeOf(value).size() < 3)
      return false;
    scores.addForm(shapeOf(value));
    if (Value viewed = viewedRows(value))
      return read(viewed, scores);
    StringRef op = node.getOp();
    if (op == "MatMul" || op == "FusedMatMul") {
      scores.product = node;
      return true;
    }
    if (op == "Mul" || op == "Div")
      return readScale(node, scores);
    if (op == "Add" || op == "Sub")
      return readSum(node, scores);
    return op == "Where" && readChoice(node, scores);
  }

private:
  static bool read(Value value, Scores &scores) {
    return value.hasOneUse() && readUsed(value, scores);
  }

  static bool isTemperature(Value factor, Value scores) {
    ArrayRef<int64_t> shape = shapeOf(factor);
    return shape.size() >= 2 && shape.size() <= shapeOf(scores).size() && shape.back() == 1 &&
           shape.drop_back().back() == 1;
  }

  static bool readTemperature(NodeOp node, Scores &scores) {
    const bool divides = node.getOp() == "Div";
    for (int i : {0, 1}) {
      if (scores.temperature || (divides && i == 0) ||
          !isTemperature(node.getOperand(i), node.getResult(0)) ||
          node.getOperand(1 - i).getType() != node.getResult(0).getType())
        continue;
      scores.temperature = {node.getOperand(i), divides,
                            llvm::to_vector<5>(shapeOf(node.getResult(0)))};
      return read(node.getOperand(1 - i), scores);
    }
    return false;
  }

  static bool readScale(NodeOp node, Scores &scores) {
    for (int i : {0, 1}) {
      std::optional<double> number = numberOf(node.getOperand(i));
      const bool divides = node.getOp() == "Div";
      if (!number || (divides && i == 0))
        continue;
      scores.scale = divides ? scores.scale / *number : scores.scale * *number;
      return read(node.getOperand(1 - i), scores);
    }
    return readTemperature(node, scores);
  }

  static bool readSum(NodeOp node, Scores &scores) {
    const bool subtracts = node.getOp() == "Sub";
    for (int i : {0, 1}) {
      if (node.getNumOperands() != 2 || (subtracts && i == 1) ||
          node.getOperand(i).getType() != node.getResult(0).getType())
        continue;
      Scores tried = scores;
      addMask(node, node.getOperand(1 - i), tried).factor *= subtracts ? -1 : 1;
      if (read(node.getOperand(i), tried)) {
        scores = tried;
        return true;
      }
    }
    return false;
  }

  /// Where(seen, scores, hidden), or Where(Not(seen), hidden, scores).
  static bool readChoice(NodeOp node, Scores &scores) {
    for (int i : {1, 2}) {
      std::optional<double> hidden = numberOf(node.getOperand(3 - i));
      if (!hidden || node.getOperand(i).getType() != node.getResult(0).getType())
        continue;
      ScoreMask &mask = addMask(node, node.getOperand(0), scores);
      mask.hidden = *hidden;
      NodeOp inversion = i == 2 ? maker(mask.value, "Not") : NodeOp();
      mask.isInverted = i == 2 && !inversion;
      if (inversion)
        mask.value = behindRepetition(inversion.getOperand(0));
      return read(node.getOperand(i), scores);
    }
    return false;
  }

  static ScoreMask &addMask(NodeOp node, Value value, Scores &scores) {
    ScoreMask mask{behindRepetition(value), llvm::to_vector<5>(shapeOf(node.getResult(0)))};
    mask.factor = scores.scale;
    mask.isUnderTemperature = scores.temperature.has_value();
    return scores.masks.emplace_back(mask);
  }
};

} // namespace

namespace pdc {

void Scores::addForm(ArrayRef<int64_t> shape) {
  if (shape.size() > leading.size() + 2)
    leading = llvm::to_vector<3>(shape.drop_back(2));
}

std::optional<Scores> scoresBehind(Value value, unsigned uses) {
  Scores scores;
  const bool isFound =
      llvm::hasNItems(value.getUses(), uses) && ScoresBehind::readUsed(value, scores);
  return isFound ? std::optional(scores) : std::nullopt;
}

Value viewedRows(Value value) {
  auto node = value.getDefiningOp<NodeOp>();
  if (!isViewNode(node) || shapeOf(node.getOperand(0)).size() < 2 ||
      shapeOf(node.getOperand(0)).take_back(2) != shapeOf(value).take_back(2))
    return {};
  return node.getOperand(0);
}

} // namespace pdc
