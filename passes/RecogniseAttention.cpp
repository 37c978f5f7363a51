#include "compiler/operators/Random.h"
#include "passes/Composites.h"

#include <algorithm>
#include <limits>

using namespace mlir;
using namespace pdc;
using namespace pdc::ir;

namespace {

using Order = SmallVector<int64_t, 4>;

/// Whether the last three dimensions are heads, rows and width, after a batch or alone.
bool isHeaded(const Order &order) { return std::is_sorted(order.begin(), order.end()); }

/// Whether they are rows, heads and width.
bool isRowsFirst(Order order) {
  std::swap(order[order.size() - 3], order[order.size() - 2]);
  return isHeaded(order);
}

/// Queries, keys or values as the operator reads them: [batch, heads, rows, width], or rows first.
/// Without a batch where it and the heads are one dimension.
struct HeadedRows {
  Value value;
  bool rowsFirst;
  double scale;
};

/// Follows a value back through what only moves or scales its elements.
class RowsBehind {
public:
  /// Dimension d of [batch, heads, rows, width], or of the last three, is dimension `order[d]` of
  /// the value.
  RowsBehind(Value value, Order order, bool sharesHeads)
      : value(value), order(std::move(order)), sharesHeads(sharesHeads) {}

  /// The last that the operator can read; nothing where there is none.
  std::optional<HeadedRows> find() {
    std::optional<HeadedRows> found;
    do {
      if (shapeOf(value).size() != order.size())
        return found;
      if (isHeaded(order))
        found = HeadedRows{value, false, scale};
      if (isRowsFirst(order))
        found = HeadedRows{value, true, scale};
    } while (passScale() || passTransposition() || passFlatTransposition() || passSharing());
    return found;
  }

private:
  bool passScale() {
    NodeOp node = value.getDefiningOp<NodeOp>();
    if (!node || (node.getOp() != "Mul" && node.getOp() != "Div"))
      return false;
    for (int i : {0, 1}) {
      std::optional<double> number = numberOf(node.getOperand(i));
      const bool divides = node.getOp() == "Div";
      if (!number || (divides && i == 0) || node.getOperand(1 - i).getType() != value.getType())
        continue;
      scale = divides ? scale / *number : scale * *number;
      value = node.getOperand(1 - i);
      return true;
    }
    return false;
  }

  bool passTransposition() {
    NodeOp node = maker(value, "Transpose");
    if (!node)
      return false;
    std::vector<int64_t> permutation = toAttributes(node.getOnnxAttributes()).integers("perm");
    if (permutation.size() != order.size())
      return false;
    for (int64_t &dimension : order)
      dimension = permutation[dimension];
    value = node.getOperand(0);
    return true;
  }

  /// Batch and heads taken together around a transposition of the other two.
  bool passFlatTransposition() {
    NodeOp outer = maker(value, "Reshape");
    NodeOp node = outer ? maker(outer.getOperand(0), "Transpose") : NodeOp();
    NodeOp inner = node ? maker(node.getOperand(0), "Reshape") : NodeOp();
    if (!inner ||
        toAttributes(node.getOnnxAttributes()).integers("perm") != std::vector<int64_t>{0, 2, 1})
      return false;
    ArrayRef<int64_t> to = shapeOf(value), from = shapeOf(inner.getOperand(0));
    ArrayRef<int64_t> flat = shapeOf(inner.getResult(0));
    if (to.size() != 4 || from.size() != 4 || flat[0] != from[0] * from[1] || flat[1] != from[2] ||
        to != ArrayRef<int64_t>{from[0], from[1], from[3], from[2]})
      return false;
    for (int64_t &dimension : order)
      dimension = dimension == 2 ? 3 : dimension == 3 ? 2 : dimension;
    value = inner.getOperand(0);
    return true;
  }

  /// A head that serves several: [b, h, x, y] to [b, h, 1, x, y], repeated, and taken together.
  bool passSharing() {
    NodeOp together = sharesHeads ? maker(value, "Reshape") : NodeOp();
    NodeOp repeated = together ? maker(together.getOperand(0), "Expand") : NodeOp();
    auto apart = repeated ? repeated.getOperand(0).getDefiningOp<NodeOp>() : NodeOp();
    if (!apart || (apart.getOp() != "Unsqueeze" && apart.getOp() != "Reshape"))
      return false;
    ArrayRef<int64_t> to = shapeOf(value), many = shapeOf(repeated.getResult(0));
    ArrayRef<int64_t> from = shapeOf(apart.getOperand(0));
    if (to.size() != 4 || from.size() != 4 || many.size() != 5 || order[0] != 0 || order[1] != 1 ||
        shapeOf(repeated.getOperand(0)) !=
            ArrayRef<int64_t>{from[0], from[1], 1, from[2], from[3]} ||
        many != ArrayRef<int64_t>{from[0], from[1], many[2], from[2], from[3]} ||
        to != ArrayRef<int64_t>{from[0], from[1] * many[2], from[2], from[3]})
      return false;
    value = apart.getOperand(0);
    return true;
  }

  Value value;
  Order order;
  bool sharesHeads;
  double scale = 1;
};

/// What is done to the products of queries and keys before their softmax.
struct Scores {
  NodeOp product;
  double scale = 1;
  Value mask; ///< null: none but that of causal attention
  std::optional<int64_t> past;
  /// Whether a constant hides keys by a finite number, which is exact where every row sees another:
  /// not under a second mask, for the two may hide a row that the scores then spread over its keys.
  bool hidesFinitely = false;

  bool isExact() const { return !(hidesFinitely && past && mask); }
};

/// Reads scores from the softmax back to the product.
class ScoresBehind {
public:
  explicit ScoresBehind(ConstantMasks &masks) : masks(masks) {}

  std::optional<Scores> find(Value value) {
    Scores scores;
    return read(value, scores) && scores.isExact() ? std::optional(scores) : std::nullopt;
  }

private:
  bool read(Value value, Scores &scores) {
    auto node = value.getDefiningOp<NodeOp>();
    if (!node || !value.hasOneUse() || shapeOf(value).empty())
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

  bool readScale(NodeOp node, Scores &scores) {
    for (int i : {0, 1}) {
      std::optional<double> number = numberOf(node.getOperand(i));
      const bool divides = node.getOp() == "Div";
      if (!number || (divides && i == 0))
        continue;
      scores.scale = divides ? scores.scale / *number : scores.scale * *number;
      return read(node.getOperand(1 - i), scores);
    }
    return false;
  }

  bool readSum(NodeOp node, Scores &scores) {
    for (int i : {0, 1}) {
      if (node.getNumOperands() != 2 || node.getOperand(i).getType() != node.getResult(0).getType())
        continue;
      Scores tried = scores;
      if (takeMask(node.getOperand(1 - i), node.getResult(0), tried) &&
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
      Value seen = node.getOperand(0), inner = node.getOperand(i);
      if (!hidden || *hidden > kHidden || inner.getType() != node.getResult(0).getType())
        continue;
      const MaskFacts *constant = masks.find(seen, i == 2);
      if (i == 2 && !constant) {
        NodeOp inverted = maker(seen, "Not");
        seen = inverted ? inverted.getOperand(0) : Value();
      }
      // A row without any key has shares all the same, unless what hides is infinite.
      const bool isFinite = *hidden != -std::numeric_limits<double>::infinity();
      const bool isSafe = !isFinite || (constant && constant->everyRowSees);
      if (seen && isSafe && takeMask(seen, node.getResult(0), scores, constant, i == 2)) {
        scores.hidesFinitely |= isFinite;
        return read(inner, scores);
      }
    }
    return false;
  }

  bool takeMask(Value mask, Value result, Scores &scores) {
    return takeMask(mask, result, scores, masks.find(mask, false), false);
  }

  /// Of a constant mask `isInverted` says that `constant` is not what `mask` holds.
  bool takeMask(Value mask, Value result, Scores &scores, const MaskFacts *constant,
                bool isInverted) {
    if (scores.scale != 1)
      return false; // the mask would be scaled too
    ArrayRef<int64_t> shape = shapeOf(result);
    if (constant && constant->past && !scores.past &&
        shapeOf(mask).take_back(2) == shape.take_back(2)) {
      scores.past = constant->past;
      scores.hidesFinitely |= constant->hidesFinitely;
      return true;
    }
    if (scores.mask || (constant && isInverted) || shapeOf(mask).size() > shape.size())
      return false;
    scores.mask = mask;
    return true;
  }

  ConstantMasks &masks;
};

/// The shares, and what dropout draws from where they pass one.
struct Shares {
  NodeOp softmax;
  Value random;
  Attributes dropout;

  ArrayRef<int64_t> shape() { return shapeOf(softmax->getResult(0)); }
  bool hasBatch() { return shape().size() == 4; }
  /// That dropout draws for, each of which has as many heads.
  int64_t samples() {
    return samplesAndElements(std::vector<int64_t>(shape()), toTensorType(random.getType()))[0];
  }
};

std::optional<Shares> sharesBehind(Value value) {
  Shares shares;
  if (!value.hasOneUse())
    return std::nullopt;
  if (NodeOp dropout = maker(value, "Dropout")) {
    shares.dropout = toAttributes(dropout.getOnnxAttributes());
    if (!shares.dropout.has("key"))
      return std::nullopt;
    shares.random = dropout.getOperand(1);
    value = dropout.getOperand(0);
  }
  shares.softmax = maker(value, "Softmax");
  const auto rank = static_cast<int64_t>(shapeOf(value).size());
  if (!shares.softmax || !value.hasOneUse() || (rank != 3 && rank != 4))
    return std::nullopt;
  const int64_t axis = toAttributes(shares.softmax.getOnnxAttributes()).integer("axis", -1);
  return axis == -1 || axis == rank - 1 ? std::optional(shares) : std::nullopt;
}

/// [batch, heads, rows, width].
Order sizesOf(const HeadedRows &rows) {
  Order sizes(shapeOf(rows.value));
  if (sizes.size() == 3)
    sizes.insert(sizes.begin(), 1);
  if (rows.rowsFirst)
    std::swap(sizes[1], sizes[2]);
  return sizes;
}

/// Queries, keys and values; the heads of keys and values are shared or repeated alike.
std::optional<std::array<HeadedRows, 3>> operandsOf(NodeOp product, NodeOp mixed,
                                                    bool sharesHeads) {
  Order order = {0, 1, 2, 3}, turned = {0, 1, 3, 2};
  if (shapeOf(mixed->getResult(0)).size() == 3)
    order = {0, 1, 2}, turned = {0, 2, 1};
  auto q = RowsBehind(product.getOperand(0), order, false).find();
  auto k = RowsBehind(product.getOperand(1), turned, sharesHeads).find();
  auto v = RowsBehind(mixed.getOperand(1), order, sharesHeads).find();
  if (!q || !k || !v || v->scale != 1)
    return std::nullopt;
  const bool fits = sizesOf(*q)[0] == sizesOf(*k)[0] && sizesOf(*k)[0] == sizesOf(*v)[0] &&
                    sizesOf(*k)[1] == sizesOf(*v)[1] && sizesOf(*q)[1] % sizesOf(*k)[1] == 0;
  return fits ? std::optional(std::array{*q, *k, *v}) : std::nullopt;
}

/// The last product: its result is transposed to rows first, or not.
NodeOp mixedBehind(NodeOp root) {
  if (root.getOp() == "MatMul")
    return root;
  NodeOp mixed = maker(root.getOperand(0), "MatMul");
  std::vector<int64_t> turned = toAttributes(root.getOnnxAttributes()).integers("perm");
  if (!mixed || !mixed.getResult(0).hasOneUse() || turned.size() < 3 ||
      !isRowsFirst(Order(turned.begin(), turned.end())))
    return {};
  return mixed;
}

} // namespace

namespace pdc {

///     Q -> MatMul K^T -> scale -> mask -> Softmax -> Dropout -> MatMul V -> Transpose
std::optional<Composite> matchAttention(NodeOp root, ConstantMasks &masks) {
  NodeOp mixed = mixedBehind(root);
  std::optional<Shares> shares = mixed ? sharesBehind(mixed.getOperand(0)) : std::nullopt;
  std::optional<Scores> scores =
      shares ? ScoresBehind(masks).find(shares->softmax.getOperand(0)) : std::nullopt;
  if (!scores || shapeOf(mixed->getResult(0)).size() != shares->shape().size())
    return std::nullopt;
  auto operands = operandsOf(scores->product, mixed, true);
  if (!operands)
    operands = operandsOf(scores->product, mixed, false);
  if (!operands)
    return std::nullopt;
  const auto &[q, k, v] = *operands;
  Attributes attributes = {
      {"rows_first", std::vector<int64_t>{q.rowsFirst, k.rowsFirst, v.rowsFirst, root != mixed}},
      {"scale", scores->scale * q.scale * k.scale}};
  if (scores->past) {
    attributes.set("is_causal", int64_t(1));
    attributes.set("past", *scores->past);
  }
  if (shares->random) {
    attributes.set("key", shares->dropout.integer("key", 0));
    attributes.set("ratio", shares->dropout.number("ratio", 0.5));
    attributes.set("samples", shares->samples());
  }
  const size_t withoutBatch = shares->hasBatch() ? 0 : 3;
  return Composite{"SoftmaxAttention",
                   {q.value, k.value, v.value, scores->mask, shares->random},
                   attributes,
                   2,
                   withoutBatch};
}

} // namespace pdc
