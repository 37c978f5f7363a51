#include "passes/AttentionMasks.h"

#include "compiler/operators/AttentionShape.h"
#include "compiler/operators/Rules.h"

#include <cmath>

using namespace mlir;
using namespace pdc;
using namespace pdc::ir;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Bounds of what is added to scores, or infinity where nothing tells of any. Weights, what is
/// projected by them, and normalised rows count as of the size of 1.
class Magnitudes {
public:
  double of(Value value) { return find(value, 0); }

private:
  /// Between a mask and what it is made of.
  static constexpr int kMostNodes = 24;

  double find(Value value, int depth) {
    auto [known, isNew] = found.try_emplace(value, kInfinity);
    if (!isNew)
      return known->second;
    const double made = depth == kMostNodes ? kInfinity : compute(value, depth + 1);
    return found[value] = made;
  }

  double compute(Value value, int depth) {
    if (isTrained(value))
      return 1;
    auto node = value.getDefiningOp<NodeOp>();
    if (!node)
      return kInfinity;
    if (isConstant(node))
      return ofConstant(value);
    const StringRef op = node.getOp();
    if (op == "LayerNormalization" || op == "Softmax" || op == "Tanh" || op == "Sigmoid")
      return 1;
    auto operand = [&](unsigned i) { return find(node.getOperand(i), depth); };
    if (op == "Div" && isConstant(node.getOperand(1).getDefiningOp()))
      return operand(0) / leastOf(node.getOperand(1));
    const bool isProduct = op == "MatMul" || op == "FusedMatMul" || op == "Gemm";
    if (isProduct && llvm::any_of(node.getOperands(), isProjection))
      return 1;
    if (isProduct || op == "Mul")
      return operand(0) * operand(1);
    if (op == "Add" || op == "Sub" || op == "Where" || op == "Concat" || moves(node))
      return ofAll(node, depth);
    return kInfinity;
  }

  static bool isTrained(Value value) {
    auto read = value.getDefiningOp<WeightVersionOp>();
    auto memory =
        read ? SymbolTable::lookupNearestSymbolFrom<MemoryOp>(read, read.getMemoryAttr()) : nullptr;
    return memory && memory.getRole() == Role::Weight;
  }

  static bool isProjection(Value value) {
    while (auto node = value.getDefiningOp<NodeOp>()) {
      if (!isViewNode(node) && node.getOp() != "Transpose")
        return false;
      value = node.getOperand(0);
    }
    return isTrained(value);
  }

  static bool moves(NodeOp node) {
    const StringRef op = node.getOp();
    return isViewNode(node) || op == "Transpose" || op == "Gather" || op == "GatherElements" ||
           op == "Slice" || op == "Split" || op == "Expand" || op == "Pad";
  }

  double ofAll(NodeOp node, int depth) {
    double sum = 0;
    for (Value operand : node.getOperands())
      if (isa<FloatType>(getElementTypeOrSelf(operand)))
        sum += find(operand, depth);
    return sum;
  }

  static double ofConstant(Value value) {
    const std::optional<pdc::Tensor> elements = constantOf(value);
    if (!elements)
      return kInfinity;
    double most = 0;
    for (double element : elements->data)
      most = std::isnan(element) ? kInfinity : std::max(most, std::abs(element));
    return most;
  }

  static double leastOf(Value constant) {
    const std::optional<pdc::Tensor> elements = constantOf(constant);
    if (!elements)
      return 0;
    double least = kInfinity;
    for (double element : elements->data)
      least = std::min(least, std::abs(element));
    return least;
  }

  llvm::DenseMap<Value, double> found;
};

/// Takes masks one after another, from the softmax back.
class TakenMasks {
public:
  /// `splits`: a choice between numbers and one that hides counts as the numbers and a past;
  /// `takesFinite`: a constant that adds a finite number to what it hides hides it for good.
  TakenMasks(ConstantMasks &constants, bool splits, bool takesFinite)
      : constants(constants), splits(splits), takesFinite(takesFinite) {}

  std::optional<AttentionMasks> find(ArrayRef<ScoreMask> masks) {
    for (const ScoreMask &mask : masks)
      if (!take(mask))
        return std::nullopt;
    if (!isExact())
      return std::nullopt;
    const bool isAlone = known.size() == 1 && !result.sharing;
    result.hidesLater = isAlone && known[0].hidesLater;
    result.mayHideRows = !seesOwn() && !(isAlone && !result.past && known[0].everyRowSees);
    return result;
  }

private:
  /// Of each mask that is joined.
  struct Known {
    bool isFinite, everyRowSees, hidesLater, seesOwn;
  };

  bool take(const ScoreMask &mask) {
    if (shapeOf(mask.value).size() > mask.scoresShape.size())
      return false;
    const MaskFacts *facts = constants.find(mask.value, mask.isInverted);
    if (facts && facts->allSeen)
      return true;
    if (mask.isUnderTemperature)
      return false; // by which it is multiplied, too
    return mask.isFlags() ? takeFlags(mask, facts) : takeNumbers(mask, facts);
  }

  bool takeFlags(const ScoreMask &mask, const MaskFacts *facts) {
    const double hidden = mask.hidden * mask.factor;
    const bool isFinite = hidden != -kInfinity;
    if (!(mask.factor > 0) || hidden > kHidden || result.sharing)
      return false;
    if (facts && takePast(mask, *facts, isFinite))
      return true;
    // A row without any key has shares all the same, unless what hides is infinite.
    if (isFinite && !(facts && facts->everyRowSees))
      return takeSharing(mask);
    NodeOp both = facts ? NodeOp() : maker(mask.value, mask.isInverted ? "Or" : "And");
    return both ? takeBoth(both, mask) : join(mask, facts, isFinite);
  }

  /// Nothing may be added behind it: hidden keys of such rows would differ.
  bool takeSharing(const ScoreMask &mask) {
    if (!result.joined.empty() || result.past || mask.factor != 1 || shapeOf(mask.value).empty())
      return false;
    result.sharing = mask;
    ++finite;
    return true;
  }

  bool takeBoth(NodeOp both, ScoreMask mask) {
    return llvm::all_of(both.getOperands(), [&](Value flags) {
      mask.value = behindRepetition(flags);
      return take(mask);
    });
  }

  bool takeNumbers(const ScoreMask &mask, const MaskFacts *facts) {
    // What a finite number hides it may hide no more once it is multiplied, and show once it is
    // taken away.
    if (facts && !(mask.factor > 0 && (mask.factor == 1 || !facts->hidesFinitely)))
      facts = nullptr;
    else if (facts && (takesFinite || !facts->hidesFinitely) &&
             takePast(mask, *facts, facts->hidesFinitely))
      return true;
    const std::optional<bool> apart =
        splits && !facts && mask.factor == 1 ? takeApart(mask) : std::nullopt;
    return apart ? *apart : join(mask, facts, false);
  }

  /// Where(seen, added, hidden): what is added is a mask of its own, smaller than the choice, where
  /// constants tell that all is seen, or what comes before. Nothing where they do not.
  std::optional<bool> takeApart(ScoreMask mask) {
    NodeOp choice = maker(mask.value, "Where");
    if (!choice)
      return std::nullopt;
    ScoreMask flags = mask;
    flags.value = behindRepetition(choice.getOperand(0));
    flags.hidden = numberOf(choice.getOperand(2)).value_or(0);
    const MaskFacts *seen = constants.find(flags.value, false);
    if (!seen || (!seen->allSeen && !(seen->past && flags.hidden <= kHidden)))
      return std::nullopt;
    if (!seen->allSeen && !takePast(flags, *seen, flags.hidden != -kInfinity))
      return false;
    mask.value = behindRepetition(choice.getOperand(1));
    return take(mask);
  }

  static bool isOfEveryPair(const ScoreMask &mask) {
    return shapeOf(mask.value).take_back(2) == ArrayRef(mask.scoresShape).take_back(2);
  }

  /// Of two, the one that shows less.
  bool takePast(const ScoreMask &mask, const MaskFacts &facts, bool isFinite) {
    if (!facts.past || result.sharing || !isOfEveryPair(mask))
      return false;
    result.past = std::min(*facts.past, result.past.value_or(*facts.past));
    finite += isFinite && !isPastFinite;
    isPastFinite |= isFinite;
    return true;
  }

  bool join(const ScoreMask &mask, const MaskFacts *facts, bool isFinite) {
    const bool everyRowSees = facts && facts->everyRowSees;
    const bool isKnown = everyRowSees && isOfEveryPair(mask);
    known.push_back(
        {isFinite, everyRowSees, isKnown && facts->hidesLater, isKnown && facts->seesOwn});
    result.joined.push_back(mask);
    finite += isFinite;
    return true;
  }

  /// Whether each query sees the key at its own place, or the last one, by all that is told of:
  /// that is what a past always shows.
  bool seesOwn() const {
    return !result.sharing && llvm::all_of(known, [](const Known &mask) { return mask.seesOwn; });
  }

  /// A finite number hides for good where a row sees some key that no other mask may hide, for the
  /// scores would spread over what the number hides. That it lies far below all scores is what
  /// exporters take for granted, too.
  bool isExact() {
    if (finite == 0 || seesOwn())
      return true;
    Magnitudes magnitudes;
    auto mayHide = [&](const ScoreMask &mask) {
      return mask.isFlags() ||
             !(magnitudes.of(mask.value) * std::abs(mask.factor) < std::abs(kHidden));
    };
    if (finite > 1 || (result.past && !isPastFinite))
      return false;
    for (auto [mask, facts] : llvm::zip_equal(result.joined, known))
      if (!facts.isFinite && mayHide(mask))
        return false;
    return true;
  }

  ConstantMasks &constants;
  const bool splits, takesFinite;
  AttentionMasks result;
  SmallVector<Known, 2> known;
  int finite = 0; ///< how many hide by a finite number
  bool isPastFinite = false;
};

} // namespace

namespace pdc {

std::optional<AttentionMasks> togetherOf(ArrayRef<ScoreMask> masks, ConstantMasks &constants) {
  // What a past tells of is not computed, and no choice is as large as the scores.
  for (bool splits : {true, false})
    for (bool takesFinite : {true, false})
      if (auto found = TakenMasks(constants, splits, takesFinite).find(masks))
        return found;
  return std::nullopt;
}

Value behindRepetition(Value mask) {
  while (auto node = mask.getDefiningOp<NodeOp>()) {
    if (node.getOp() == "Where" && numberOf(node.getOperand(1)) == 0.0 &&
        numberOf(node.getOperand(2)) == -kInfinity)
      mask = node.getOperand(0);
    else if (node.getOp() == "Expand" && !shapeOf(node.getOperand(0)).empty())
      mask = node.getOperand(0);
    else
      break;
  }
  return mask;
}

} // namespace pdc
