#include "passes/AttentionScores.h"

#include "compiler/operators/AttentionShape.h"
#include "compiler/operators/Rules.h"

#include <limits>

using namespace mlir;
using namespace pdc;
using namespace pdc::ir;

namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

/// Reads scores from the softmax back to the product.
class ScoresBehind {
public:
  /// `takesFinite`: a constant that adds a finite number to what it hides counts as one that hides
  /// it for good.
  ScoresBehind(ConstantMasks &masks, bool takesFinite) : masks(masks), takesFinite(takesFinite) {}

  std::optional<Scores> find(Value value) {
    Scores scores;
    return readUsed(value, scores) && scores.isExact() ? std::optional(scores) : std::nullopt;
  }

private:
  bool read(Value value, Scores &scores) { return value.hasOneUse() && readUsed(value, scores); }

  bool readUsed(Value value, Scores &scores) {
    auto node = value.getDefiningOp<NodeOp>();
    if (!node || shapeOf(value).size() < 3)
      return false;
    scores.addForm(shapeOf(value));
    if (Value viewed = viewedRows(value))
      return read(viewed, scores);
    StringRef op = node.getOp();
    if (op == "MatMul") {
      scores.product = node;
      return true;
    }
    if (op == "Mul" || op == "Div")
      return readScale(node, scores);
    if (op == "Add" || op == "Sub")
      return readSum(node, scores);
    return op == "Where" && readChoice(node, scores);
  }

  static bool isTemperature(Value factor, Value scores) {
    ArrayRef<int64_t> shape = shapeOf(factor);
    return shape.size() >= 2 && shape.size() <= shapeOf(scores).size() && shape.back() == 1 &&
           shape.drop_back().back() == 1;
  }

  bool readTemperature(NodeOp node, Scores &scores) {
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
    const bool subtracts = node.getOp() == "Sub";
    for (int i : {0, 1}) {
      if (node.getNumOperands() != 2 || (subtracts && i == 1) ||
          node.getOperand(i).getType() != node.getResult(0).getType())
        continue;
      Scores tried = scores;
      ScoreMask mask = toldFor(node, behind(node.getOperand(1 - i), !subtracts));
      mask.factor = subtracts ? -scores.scale : scores.scale;
      if (take(mask, tried) && read(node.getOperand(i), tried)) {
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
      ScoreMask mask = toldFor(node, behind(node.getOperand(0), true));
      Value inner = node.getOperand(i);
      if (!hidden || *hidden > kHidden || inner.getType() != node.getResult(0).getType())
        continue;
      mask.isInverted = i == 2;
      if (NodeOp inversion = mask.isInverted ? maker(mask.value, "Not") : NodeOp()) {
        mask.value = behind(inversion.getOperand(0), true);
        mask.isInverted = false;
      }
      mask.isFinite = *hidden != kNever;
      mask.factor = scores.scale;
      const MaskFacts *constant = masks.find(mask.value, mask.isInverted);
      // A row without any key has shares all the same, unless what hides is infinite.
      const bool mayHideRows = mask.isFinite && !(constant && constant->everyRowSees);
      if (mayHideRows ? takeFirst(mask, scores) : take(mask, scores))
        return read(inner, scores);
    }
    return false;
  }

  static ScoreMask toldFor(NodeOp node, Value value) {
    return {value, llvm::to_vector<5>(shapeOf(node.getResult(0)))};
  }

  /// What a mask says without being repeated, and, where it is `added`, of one that adds 0 or hides
  /// for good: what is seen.
  static Value behind(Value mask, bool isAdded) {
    while (auto node = mask.getDefiningOp<NodeOp>()) {
      if (isAdded && node.getOp() == "Where" && numberOf(node.getOperand(1)) == 0.0 &&
          numberOf(node.getOperand(2)) == kNever)
        mask = node.getOperand(0);
      else if (node.getOp() == "Expand" && !shapeOf(node.getOperand(0)).empty())
        mask = node.getOperand(0);
      else
        break;
    }
    return mask;
  }

  /// A mask that hides by a finite number, though it may hide whole rows: only numbers may have
  /// been added before.
  static bool takeFirst(const ScoreMask &mask, Scores &scores) {
    if (!scores.masks.empty() || scores.past || scores.scale != 1 || scores.temperature ||
        shapeOf(mask.value).empty() || shapeOf(mask.value).size() > mask.scores.size())
      return false;
    scores.masks.push_back(mask);
    return scores.sharesEqually = true;
  }

  /// A mask under a temperature would be multiplied, too.
  bool take(ScoreMask mask, Scores &scores) {
    if (shapeOf(mask.value).size() > mask.scores.size())
      return false;
    const MaskFacts *constant = masks.find(mask.value, mask.isInverted);
    if (constant && constant->allSeen)
      return true;
    if (scores.temperature || (mask.isFlags() && (mask.factor <= 0 || scores.sharesEqually)))
      return false;
    if (constant && takePast(mask, *constant, scores))
      return true;
    if (NodeOp both = constant ? NodeOp() : maker(mask.value, mask.isInverted ? "Or" : "And");
        both && mask.isFlags() && takeBoth(both, mask, scores))
      return true;
    if (NodeOp choice = constant || mask.isFlags() ? NodeOp() : maker(mask.value, "Where");
        choice && mask.factor == 1 && takeChoice(choice, mask, scores))
      return true;
    mask.everyRowSees = constant && constant->everyRowSees;
    mask.hidesLater = mask.everyRowSees && constant->hidesLater && isOfEveryPair(mask);
    scores.masks.push_back(mask);
    return true;
  }

  static bool isOfEveryPair(const ScoreMask &mask) {
    return shapeOf(mask.value).take_back(2) == ArrayRef(mask.scores).take_back(2);
  }

  bool takePast(const ScoreMask &mask, const MaskFacts &constant, Scores &scores) const {
    const bool isTaken = constant.past && !scores.past && !scores.sharesEqually &&
                         isOfEveryPair(mask) && mask.factor > 0 &&
                         (!constant.hidesFinitely || (takesFinite && mask.factor == 1));
    if (!isTaken)
      return false;
    scores.past = constant.past;
    scores.hidesPastFinitely = constant.hidesFinitely || mask.isFinite;
    return true;
  }

  /// Where(seen, added, hidden): what is added is a mask of its own, smaller than the choice, where
  /// constants tell that all is seen, or what comes before.
  bool takeChoice(NodeOp choice, ScoreMask mask, Scores &scores) {
    ScoreMask flags = mask;
    flags.value = behind(choice.getOperand(0), true);
    const MaskFacts *seen = masks.find(flags.value, false);
    std::optional<double> hidden = numberOf(choice.getOperand(2));
    mask.value = behind(choice.getOperand(1), true);
    if (seen && seen->allSeen)
      return take(mask, scores);
    // A finite number hides for good where a row sees some key all the same.
    const bool isExact = hidden && (*hidden == kNever || (*hidden <= kHidden && !mask.mayHide()));
    Scores tried = scores;
    if (!seen || !isExact || !takePast(flags, *seen, tried) || !take(mask, tried))
      return false;
    scores = tried;
    return true;
  }

  bool takeBoth(NodeOp both, ScoreMask mask, Scores &scores) {
    Scores tried = scores;
    for (Value flags : both.getOperands()) {
      mask.value = behind(flags, true);
      if (!take(mask, tried))
        return false;
    }
    scores = tried;
    return true;
  }

  ConstantMasks &masks;
  const bool takesFinite;
};

} // namespace

namespace pdc {

void Scores::addForm(ArrayRef<int64_t> shape) {
  if (shape.size() > leading.size() + 2)
    leading = llvm::to_vector<3>(shape.drop_back(2));
}

bool Scores::isExact() const {
  const auto finite = hidesPastFinitely +
                      llvm::count_if(masks, [](const ScoreMask &mask) { return mask.isFinite; });
  const bool mayOthersHide =
      (past && !hidesPastFinitely) ||
      llvm::any_of(masks, [](const ScoreMask &mask) { return !mask.isFinite && mask.mayHide(); });
  return finite == 0 || (finite == 1 && !mayOthersHide);
}

std::optional<Scores> scoresBehind(Value value, unsigned uses, ConstantMasks &masks) {
  if (!llvm::hasNItems(value.getUses(), uses))
    return std::nullopt;
  std::optional<Scores> found = ScoresBehind(masks, true).find(value);
  return found ? found : ScoresBehind(masks, false).find(value);
}

Value viewedRows(Value value) {
  auto node = value.getDefiningOp<NodeOp>();
  if (!isViewNode(node) || shapeOf(node.getOperand(0)).size() < 2 ||
      shapeOf(node.getOperand(0)).take_back(2) != shapeOf(value).take_back(2))
    return {};
  return node.getOperand(0);
}

} // namespace pdc
