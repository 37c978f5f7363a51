#include "passes/Composites.h"

#include "compiler/operators/Rules.h"

using namespace mlir;
using namespace pdc;
using namespace pdc::ir;

namespace {

std::string quoted(NodeOp node) { return "'" + node.getName().str() + "'"; }

/// Why the products around a softmax are no attention in one kernel.
struct Obstacle {
  std::string kind; ///< the same for all layers of a network
  std::string text; ///< of one of them
};

/// Follows the shares that weigh values back to the product of queries and keys.
class PartsBehind {
public:
  /// Nothing where the product is not the last of an attention.
  static std::optional<Obstacle> find(NodeOp last, ConstantMasks &masks) {
    PartsBehind parts;
    if (last.getNumOperands() != 2 || !hasHeads(last) || !parts.follow(last.getOperand(0), last, 0))
      return std::nullopt;
    if (parts.obstacle)
      return parts.obstacle;
    if (hasOtherMasks(last, masks))
      return Obstacle{"masks", "its masks are multiplied by a temperature, or hide a row's keys "
                               "together where one of them does so by a finite number"};
    return Obstacle{"form", "how its heads lie has no form that it knows"};
  }

private:
  /// Between two products stand few nodes; what others write is no attention.
  static constexpr int kMostNodes = 12;

  /// Both operands are computed for each sample: no product with a weight.
  static bool hasHeads(NodeOp product) {
    return llvm::all_of(product.getOperands(), [](Value operand) {
      return !operand.getDefiningOp<WeightVersionOp>() && shapeOf(operand).size() >= 3;
    });
  }

  /// Such attention is better off in parts.
  static bool hasSmallScores(NodeOp first) {
    const int64_t queries = product(shapeOf(first.getOperand(0)).vec()),
                  rows = product(shapeOf(first->getResult(0)).drop_back().vec()),
                  scores = product(shapeOf(first->getResult(0)).vec());
    return queries > kWideHead * rows && queries > kManyTimes * scores;
  }

  /// The nodes that make zeros of rows which see no key test what they choose between.
  static bool readsAside(Value value, Operation *reader) {
    return llvm::any_of(value.getUsers(), [&](Operation *user) {
      auto node = dyn_cast<NodeOp>(user);
      return user != reader && !(node && (node.getOp() == "IsNaN" || node.getOp() == "ReduceMax"));
    });
  }

  static bool isScaling(NodeOp node) {
    return llvm::any_of(node.getOperands(), [](Value operand) { return numberOf(operand); });
  }

  bool follow(Value value, NodeOp reader, int depth) {
    NodeOp node = value.getDefiningOp<NodeOp>();
    if (!node || depth == kMostNodes)
      return false;
    StringRef op = node.getOp();
    if (readsAside(value, reader))
      stop("reader", "its " + std::string(isBehindSoftmax ? "scores" : "shares") + ", which " +
                         quoted(node) + " makes, have other readers, too");
    if ((op == "MatMul" || op == "FusedMatMul") && isBehindSoftmax && hasHeads(node))
      return !hasSmallScores(node);
    if (op == "Softmax")
      return !std::exchange(isBehindSoftmax, true) && followSoftmax(node, depth);
    const bool isKnown = op == "Add" || op == "Where" || (op == "Dropout" && !isBehindSoftmax) ||
                         ((op == "Mul" || op == "Div") && isScaling(node));
    if (!isKnown)
      stop(op, quoted(node) + " (" + op.str() + ") stands between its products");
    return followOperand(node, depth);
  }

  bool followSoftmax(NodeOp softmax, int depth) {
    const auto rank = static_cast<int64_t>(shapeOf(softmax->getResult(0)).size());
    const int64_t axis = toAttributes(softmax.getOnnxAttributes()).integer("axis", -1);
    if (axis != -1 && axis != rank - 1)
      stop("axis", "its softmax " + quoted(softmax) + " does not go over the last dimension");
    return follow(softmax.getOperand(0), softmax, depth + 1);
  }

  /// A mask may be as large as what it masks: whichever operand has the product behind it.
  bool followOperand(NodeOp node, int depth) {
    const int64_t elements = product(shapeOf(node->getResult(0)).vec());
    for (Value operand : node.getOperands()) {
      if (!isa<FloatType>(getElementTypeOrSelf(operand)) ||
          product(shapeOf(operand).vec()) != elements)
        continue;
      PartsBehind tried = *this;
      if (tried.follow(operand, node, depth + 1)) {
        *this = tried;
        return true;
      }
    }
    return false;
  }

  void stop(StringRef kind, std::string text) {
    if (!obstacle)
      obstacle = Obstacle{kind.str(), std::move(text)};
  }

  bool isBehindSoftmax = false;
  std::optional<Obstacle> obstacle; ///< the first, from the end
};

} // namespace

namespace pdc {

void warnOfAttentionInParts(func::FuncOp function, ConstantMasks &masks) {
  struct Layers {
    NodeOp first;
    std::string text;
    int count = 0;
  };
  std::map<std::string, Layers> kinds; // by the kind of obstacle
  for (NodeOp node : function.getOps<NodeOp>())
    if (std::optional<Obstacle> obstacle =
            node.getOp() == "MatMul" ? PartsBehind::find(node, masks) : std::nullopt)
      ++kinds.try_emplace(obstacle->kind, node, obstacle->text).first->second.count;
  for (auto &[kind, layers] : kinds) {
    InFlightDiagnostic warning = layers.first.emitWarning();
    warning << "the attention that ends at '" << layers.first.getName() << "'";
    if (layers.count > 1)
      warning << " (and " << layers.count - 1 << " like it)";
    warning << " is computed as two products and a softmax, whose scores are written and kept for "
               "the backward pass, rather than by one kernel: "
            << layers.text;
  }
}

} // namespace pdc
