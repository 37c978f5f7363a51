#include "passes/AttentionScores.h"

#include "compiler/operators/AttentionShape.h"
#include "compiler/operators/Rules.h"

#include <limits>

using namespace mlir;
using namespace pdc;
using namespace pdc::ir;

namespace {

/// Reads scores from the softmax back to the product.
class ScoresBehind {
public:
  explicit ScoresBehind(ConstantMasks &masks) : masks(masks) {}

  std::optional<Scores> find(Value value) {
    Scores scores;
    return readUsed(value, scores) && scores.isExact() ? std::optional(scores) : std::nullopt;
  }

private:
  bool read(Value value, Scores &scores) { return value.hasOneUse() && readUsed(value, scores); }

  bool readUsed(Value value, Scores &scores) {
    auto node = value.getDefiningOp<NodeOp>();
    if (!node || shapeOf(value).empty())
      return false;
    if (node.getOp() == "MatMul") {
      scores.product = node;
      return true;
    }
    if (node.getOp() == "Mul" || node.getOp() == "Div")
      return readScale(node, scores);
    if (node.getOp() == "Add")
      return readSum(node, scores);
    return node.getOp() == "Where" && readChoice(node, scores);
  }

  /// Whether it is one number for all rows and keys of a head, as Swin v2 and XCiT train it.
  static bool isTemperature(Value factor, Value scores) {
    ArrayRef<int64_t> shape = shapeOf(factor);
    return shape.size() >= 2 && shape.size() <= shapeOf(scores).size() && shape.back() == 1 &&
           shape.drop_back().back() == 1;
  }

  bool readTemperature(NodeOp node, Scores &scores) {
    if (scores.temperature || node.getOp() != "Mul")
      return false;
    for (int i : {0, 1}) {
      if (!isTemperature(node.getOperand(i), node.getResult(0)) ||
          node.getOperand(1 - i).getType() != node.getResult(0).getType())
        continue;
      scores.temperature = node.getOperand(i);
      return read(node.getOperand(1 - i), scores);
    }
    return false;
  }

  bool readScale(NodeOp node, Scores &scores) {
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

  bool readSum(NodeOp node, Scores &scores) {
    for (int i : {0, 1}) {
      if (node.getNumOperands() != 2 || node.getOperand(i).getType() != node.getResult(0).getType())
        continue;
      Scores tried = scores;
      if (takeMask(behind(node.getOperand(1 - i)), node.getResult(0), tried, false) &&
          read(node.getOperand(i), tried)) {
        scores = tried;
        return true;
      }
    }
    return false;
  }

  /// Where(seen, scores, hidden), or Where(Not(seen), hidden, scores).
  bool readChoice(NodeOp node, Scores &scores) {
    for (int i : {1, 2}) {
      std::optional<double> hidden = numberOf(node.getOperand(3 - i));
      Value seen = behind(node.getOperand(0)), inner = node.getOperand(i);
      if (!hidden || *hidden > kHidden || inner.getType() != node.getResult(0).getType())
        continue;
      bool isInverted = i == 2;
      if (NodeOp inversion = isInverted ? maker(seen, "Not") : NodeOp()) {
        seen = behind(inversion.getOperand(0));
        isInverted = false;
      }
      const MaskFacts *constant = masks.find(seen, isInverted);
      // A row without any key has shares all the same, unless what hides is infinite.
      const bool isFinite = *hidden != -std::numeric_limits<double>::infinity();
      const bool sharesEqually = isFinite && !(constant && constant->everyRowSees);
      const bool isTaken = sharesEqually ? takeOnlyMask(seen, node.getResult(0), scores, isInverted)
                                         : takeMask(seen, node.getResult(0), scores, isInverted);
      if (isTaken) {
        scores.hidesFinitely |= isFinite && !sharesEqually;
        return read(inner, scores);
      }
    }
    return false;
  }

  /// What a mask says without being repeated, and of one that adds 0 or hides for good: what is
  /// seen.
  Value behind(Value mask) {
    while (auto node = mask.getDefiningOp<NodeOp>()) {
      if (node.getOp() == "Where" && numberOf(node.getOperand(1)) == 0.0 &&
          numberOf(node.getOperand(2)) == -std::numeric_limits<double>::infinity())
        mask = node.getOperand(0);
      else if (node.getOp() == "Expand" && !shapeOf(node.getOperand(0)).empty())
        mask = node.getOperand(0);
      else
        break;
    }
    return mask;
  }

  /// A mask that hides by a finite number, though it may hide whole rows.
  static bool takeOnlyMask(Value mask, Value result, Scores &scores, bool isInverted) {
    if (scores.mask || scores.past || scores.areScaled() ||
        shapeOf(mask).size() > shapeOf(result).size())
      return false;
    scores.mask = mask;
    scores.isInverted = isInverted;
    return scores.sharesEqually = true;
  }

  /// `isInverted`: it says what is hidden.
  bool takeMask(Value mask, Value result, Scores &scores, bool isInverted) {
    ArrayRef<int64_t> shape = shapeOf(result);
    if (scores.areScaled() || shapeOf(mask).size() > shape.size())
      return false; // the mask would be scaled too
    const MaskFacts *constant = masks.find(mask, isInverted);
    if (constant && constant->allSeen)
      return true;
    if (scores.sharesEqually)
      return false;
    if (constant && constant->past && !scores.past &&
        shapeOf(mask).take_back(2) == shape.take_back(2)) {
      scores.past = constant->past;
      scores.hidesFinitely |= constant->hidesFinitely;
      return true;
    }
    if (NodeOp both = constant ? NodeOp() : maker(mask, isInverted ? "Or" : "And");
        both && takeBoth(both, result, scores, isInverted))
      return true;
    if (NodeOp choice = constant || isInverted ? NodeOp() : maker(mask, "Where");
        choice && takeChoice(choice, result, scores))
      return true;
    if (scores.mask)
      return false;
    scores.mask = mask;
    scores.isInverted = isInverted;
    scores.everyRowSees = constant && constant->everyRowSees;
    scores.hidesLater = scores.everyRowSees && constant->hidesLater &&
                        shapeOf(mask).take_back(2) == shape.take_back(2);
    return true;
  }

  /// Where(seen, added, hidden): what is added is a mask of its own, smaller than the choice, where
  /// constants tell that all is seen, or what comes before.
  bool takeChoice(NodeOp choice, Value result, Scores &scores) {
    const MaskFacts *seen = masks.find(behind(choice.getOperand(0)), false);
    std::optional<double> hidden = numberOf(choice.getOperand(2));
    Value added = behind(choice.getOperand(1));
    if (seen && seen->allSeen)
      return takeMask(added, result, scores, false);
    // A finite number hides for good where a row sees some key all the same.
    const bool isExact = hidden && (*hidden == -std::numeric_limits<double>::infinity() ||
                                    (*hidden <= kHidden && isOfWeights(added)));
    Scores tried = scores;
    if (!seen || !isExact || !takeMask(behind(choice.getOperand(0)), result, tried, false) ||
        !tried.past || tried.mask != scores.mask || !takeMask(added, result, tried, false))
      return false;
    scores = tried;
    return true;
  }

  /// Whether the elements are a trained weight's, such as biases of relative positions.
  static bool isOfWeights(Value value) {
    while (auto node = value.getDefiningOp<NodeOp>()) {
      const bool moves = isViewNode(node) || node.getOp() == "Transpose" ||
                         node.getOp() == "Gather" || node.getOp() == "Slice" ||
                         node.getOp() == "Expand";
      if (!moves)
        return false;
      value = node.getOperand(0);
    }
    auto read = value.getDefiningOp<WeightVersionOp>();
    auto memory =
        read ? SymbolTable::lookupNearestSymbolFrom<MemoryOp>(read, read.getMemoryAttr()) : nullptr;
    return memory && memory.getRole() == Role::Weight;
  }

  bool takeBoth(NodeOp both, Value result, Scores &scores, bool isInverted) {
    Scores tried = scores;
    for (Value mask : both.getOperands())
      if (!takeMask(behind(mask), result, tried, isInverted))
        return false;
    scores = tried;
    return true;
  }

  ConstantMasks &masks;
};

} // namespace

namespace pdc {

std::optional<Scores> scoresBehind(Value value, unsigned uses, ConstantMasks &masks) {
  return llvm::hasNItems(value.getUses(), uses) ? ScoresBehind(masks).find(value) : std::nullopt;
}

Value inverted(NodeOp root, Value mask, NodeNames &names) {
  OpBuilder builder(root);
  return createNode(builder, root.getLoc(), "Not", names.unique(root.getName() + "/seen"), {mask},
                    {})
      ->getResult(0);
}

/// Dimensions of one element stand anywhere between those of batch and heads.
Value scaledBy(NodeOp root, Value queries, const std::vector<int64_t> &shape, int64_t rowsFirst,
               Value temperature, NodeNames &names) {
  OpBuilder builder(root);
  std::vector<int64_t> sizes(4 - shapeOf(temperature).size(), 1);
  llvm::append_range(sizes, shapeOf(temperature));
  const std::vector<int64_t> orders[] = {
      sizes, {sizes[0], 1, sizes[1], 1}, {1, sizes[0], sizes[1], 1}};
  queries = inShape(builder, root, "/headed", queries, shape, names);
  temperature = inShape(builder, root, "/temperature", temperature,
                        orders[static_cast<size_t>(rowsFirst)], names);
  return createNode(builder, root.getLoc(), "Mul", names.unique(root.getName() + "/scaled"),
                    {queries, temperature}, {})
      ->getResult(0);
}

std::pair<Value, Value> shareEqually(NodeOp root, Value queries, ArrayRef<int64_t> order,
                                     Value seen, NodeNames &names) {
  OpBuilder builder(root);
  auto add = [&](StringRef op, StringRef suffix, ValueRange operands, Attributes attributes = {}) {
    return createNode(builder, root.getLoc(), op, names.unique(root.getName() + suffix), operands,
                      attributes)
        ->getResult(0);
  };
  auto cast = [&](Value value, ElementType element) {
    return add("Cast", "/sees", {value}, {{"to", onnxType(element)}});
  };
  Value axis = add("Constant", "/axis", {}, {{"value", pdc::Tensor::vector({-1})}});
  Value zero = add("Constant", "/zero", {},
                   {{"value", pdc::Tensor::scalar(toTensorType(queries.getType()).element, 0)}});
  Value most = add("ReduceMax", "/sees", {cast(seen, ElementType::f32), axis});
  Value sees = cast(most, ElementType::boolean);
  Value open = add("Or", "/open", {seen, add("Not", "/unseen", {sees})});

  std::vector<int64_t> shape(4 - shapeOf(sees).size(), 1);
  llvm::append_range(shape, shapeOf(sees));
  sees = inShape(builder, root, "/sees", sees, shape, names);
  if (!llvm::is_sorted(order))
    sees = add("Transpose", "/sees", {sees}, {{"perm", std::vector<int64_t>(order)}});
  return {add("Where", "/queries", {sees, queries, zero}), open};
}

} // namespace pdc
