#include "compiler/operators/Random.h"
#include "compiler/operators/Rules.h"
#include "passes/AttentionScores.h"
#include "passes/DimensionFactors.h"

#include <algorithm>
#include <limits>

using namespace mlir;
using namespace pdc;
using namespace pdc::ir;

namespace {

using Sizes = DimensionFactors::Sizes;

/// The dimensions of queries, keys, values and results.
enum : int64_t { kBatch, kHeads, kRows, kWidth };

/// The orders in which they lie, as attribute `rows_first` numbers them.
constexpr int64_t kOrders[3][4] = {{kBatch, kHeads, kRows, kWidth},
                                   {kBatch, kRows, kHeads, kWidth},
                                   {kRows, kBatch, kHeads, kWidth}};

/// Sizes of [batch, heads, rows, width] in one of the orders.
std::vector<int64_t> inOrder(const Sizes &sizes, int64_t rowsFirst) {
  std::vector<int64_t> shape;
  for (int64_t d : kOrders[rowsFirst])
    shape.push_back(sizes[static_cast<size_t>(d)]);
  return shape;
}

/// Queries, keys or values as the operator reads them, whatever the value's own shape is.
struct HeadedRows {
  Value value;
  int64_t rowsFirst;
  double scale;
  Sizes sizes; ///< of [batch, heads, rows, width]

  std::vector<int64_t> shape() const { return inOrder(sizes, rowsFirst); }
  bool isAsItIs() const { return shapeOf(value) == ArrayRef(shape()); }
};

/// Follows a value back through what only moves or scales its elements.
class RowsBehind {
public:
  /// Its dimensions are the last of [batch, heads, rows, width]; `isTurned`: of the last two the
  /// other comes first.
  RowsBehind(Value value, bool isTurned, bool sharesHeads)
      : value(value), factors(sizesOf(value, isTurned), dimensionsOf(value, isTurned)),
        sharesHeads(sharesHeads) {}

  /// The last that the operator can read, the nearest of its views; nothing where there is none.
  std::optional<HeadedRows> find() {
    std::optional<HeadedRows> found;
    if (llvm::is_contained(factors.sizes(), 0))
      return found;
    do {
      std::optional<HeadedRows> here = readable();
      if (here && (!found || hasMoved || (here->isAsItIs() && !found->isAsItIs())))
        found = here, hasMoved = false;
    } while (passScale() || passTransposition() || passView() || passRepetition());
    return found;
  }

private:
  static SmallVector<int64_t, 4> dimensionsOf(Value value, bool isTurned) {
    SmallVector<int64_t, 4> dimensions = {kBatch, kHeads, kRows, kWidth};
    if (isTurned)
      std::swap(dimensions[2], dimensions[3]);
    dimensions.erase(dimensions.begin(), dimensions.end() - int64_t(shapeOf(value).size()));
    return dimensions;
  }

  static Sizes sizesOf(Value value, bool isTurned) {
    Sizes sizes(4, 1);
    for (auto [d, size] : llvm::zip_equal(dimensionsOf(value, isTurned), shapeOf(value)))
      sizes[static_cast<size_t>(d)] = size;
    return sizes;
  }

  /// Where sizes of 1 leave a choice, as the value's own shape has it, or rows before heads.
  std::optional<HeadedRows> readable() const {
    std::optional<HeadedRows> found;
    for (int64_t rowsFirst : {1, 0, 2})
      if (factors.lieAs(kOrders[rowsFirst]))
        if (HeadedRows rows{value, rowsFirst, scale, factors.sizes()}; !found || rows.isAsItIs())
          found = rows;
    return found;
  }

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
      return hasMoved = true;
    }
    return false;
  }

  bool passTransposition() {
    NodeOp node = maker(value, "Transpose");
    if (!node)
      return false;
    factors.passTransposition(permutationOf(node));
    value = node.getOperand(0);
    return hasMoved = true;
  }

  bool passView() {
    auto node = value.getDefiningOp<NodeOp>();
    if (!isViewNode(node) || shapeOf(node.getOperand(0)).empty() ||
        !factors.passView(shapeOf(node.getOperand(0))))
      return false;
    value = node.getOperand(0);
    return true;
  }

  /// A head that serves several.
  bool passRepetition() {
    NodeOp node = sharesHeads ? maker(value, "Expand") : NodeOp();
    if (!node || !factors.passRepetition(shapeOf(node.getOperand(0)), kHeads))
      return false;
    value = node.getOperand(0);
    return hasMoved = true;
  }

  Value value;
  DimensionFactors factors;
  bool sharesHeads;
  bool hasMoved = false; ///< other than as a view, since something was found
  double scale = 1;
};

/// The shares, and what dropout draws from where they pass one.
struct Shares {
  NodeOp softmax;
  Value scores;        ///< what the softmax is of, before a guard
  unsigned readers = 1; ///< uses of the scores
  Value random;
  Attributes dropout;
  /// Whether rows of which nothing is seen, whose softmax is no number, become zeros.
  bool isGuarded = false;

  ArrayRef<int64_t> shape() { return shapeOf(softmax->getResult(0)); }
  /// That dropout draws for, each of which has as many heads.
  int64_t samples() {
    return samplesAndElements(std::vector<int64_t>(shape()), toTensorType(random.getType()))[0];
  }
};

/// What Where(IsNaN(x), 0, x) reads, as PyTorch exports its scaled_dot_product_attention, where
/// nobody else does; else null.
Value guardedBehind(Value value) {
  NodeOp choice = value.hasOneUse() ? maker(value, "Where") : NodeOp();
  NodeOp test = choice ? maker(choice.getOperand(0), "IsNaN") : NodeOp();
  if (!test || !test->hasOneUse() || numberOf(choice.getOperand(1)) != 0.0 ||
      test.getOperand(0) != choice.getOperand(2) ||
      !llvm::hasNItems(test.getOperand(0).getUses(), 2))
    return {};
  return test.getOperand(0);
}

/// The softmax of Where(hidden, 0, Softmax(Where(hidden, 0, scores))), where no score of a row is
/// more than minus infinity; sets its scores.
Value guardedScoresBehind(Value value, Value &scores) {
  NodeOp choice = value.hasOneUse() ? maker(value, "Where") : NodeOp();
  NodeOp hidden = choice ? maker(choice.getOperand(0), "Equal") : NodeOp(),
         most = hidden ? maker(hidden.getOperand(0), "ReduceMax") : NodeOp(),
         softmax = choice ? maker(choice.getOperand(2), "Softmax") : NodeOp(),
         seen = softmax ? maker(softmax.getOperand(0), "Where") : NodeOp();
  if (!most || !seen || most->getNumOperands() != 2)
    return {};
  scores = seen.getOperand(2);
  const std::optional<pdc::Tensor> axes = constantOf(most.getOperand(1));
  const bool isOfRows = axes && axes->data == std::vector<double>{-1} &&
                        shapeOf(most->getResult(0)).back() == 1 && most.getOperand(0) == scores;
  const bool isGuard = seen.getOperand(0) == choice.getOperand(0) &&
                       numberOf(choice.getOperand(1)) == 0.0 &&
                       numberOf(seen.getOperand(1)) == 0.0 &&
                       numberOf(hidden.getOperand(1)) == -std::numeric_limits<double>::infinity();
  const bool areUnread = most->hasOneUse() && seen->hasOneUse() && softmax->hasOneUse() &&
                         llvm::hasNItems(hidden->getUses(), 2);
  return isOfRows && isGuard && areUnread ? choice.getOperand(2) : Value();
}

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
  if (Value guarded = guardedBehind(value)) {
    shares.isGuarded = true;
    value = guarded;
  } else if (Value guardedScores = guardedScoresBehind(value, shares.scores)) {
    shares.isGuarded = true;
    shares.readers = 2;
    value = guardedScores;
  } else if (!value.hasOneUse()) {
    return std::nullopt;
  }
  shares.softmax = maker(value, "Softmax");
  const auto rank = static_cast<int64_t>(shapeOf(value).size());
  if (!shares.softmax || (rank != 3 && rank != 4))
    return std::nullopt;
  if (shares.readers == 1)
    shares.scores = shares.softmax.getOperand(0);
  const int64_t axis = toAttributes(shares.softmax.getOnnxAttributes()).integer("axis", -1);
  return axis == -1 || axis == rank - 1 ? std::optional(shares) : std::nullopt;
}

/// Queries, keys and values; the heads of keys and values are shared or repeated alike.
std::optional<std::array<HeadedRows, 3>> operandsOf(NodeOp product, NodeOp mixed,
                                                    bool sharesHeads) {
  auto q = RowsBehind(product.getOperand(0), false, false).find();
  auto k = RowsBehind(product.getOperand(1), true, sharesHeads).find();
  auto v = RowsBehind(mixed.getOperand(1), false, sharesHeads).find();
  // Of all samples: a query that is the same for all heads may be one.
  const int64_t heads = pdc::product(shapeOf(mixed.getResult(0)).drop_back(2).vec());
  if (!q || !k || !v || v->scale != 1)
    return std::nullopt;
  const bool fits = q->sizes[kBatch] == k->sizes[kBatch] && k->sizes[kBatch] == v->sizes[kBatch] &&
                    k->sizes[kHeads] == v->sizes[kHeads] &&
                    q->sizes[kHeads] % k->sizes[kHeads] == 0 &&
                    q->sizes[kBatch] * q->sizes[kHeads] == heads;
  return fits ? std::optional(std::array{*q, *k, *v}) : std::nullopt;
}

/// Whether scores are few beside what they are made of, as of channels over all of an image:
/// products compute them as well, and no kernel has heads so wide.
bool hasSmallScores(const HeadedRows &queries, const HeadedRows &keys) {
  const int64_t width = queries.sizes[kWidth];
  return width > kWideHead && width > kManyTimes * keys.sizes[kRows];
}

/// Of any mask of these queries: whether it is one of some or all of their heads and rows.
bool isMaskOf(const HeadedRows &queries, Value mask) {
  if (shapeOf(mask).empty())
    return false;
  Sizes sizes(4 - shapeOf(mask).size(), 1);
  llvm::append_range(sizes, shapeOf(mask));
  return llvm::all_of(std::array{kBatch, kHeads, kRows}, [&](int64_t d) {
    return sizes[size_t(d)] == 1 || sizes[size_t(d)] == queries.sizes[size_t(d)];
  });
}

/// The last product and the order of the result: `root`, or the product that it transposes.
struct Mixed {
  NodeOp product;
  int64_t rowsFirst = 0;
};

Mixed mixedBehind(NodeOp root) {
  if (root.getOp() == "MatMul")
    return {root};
  NodeOp product = maker(root.getOperand(0), "MatMul");
  if (!product || !product.getResult(0).hasOneUse())
    return {};
  const std::vector<int64_t> turned = permutationOf(root);
  if (turned == std::vector<int64_t>{1, 0, 2})
    return {product, 1};
  for (int64_t rowsFirst : {1, 2})
    if (llvm::equal(turned, kOrders[rowsFirst]))
      return {product, rowsFirst};
  return {};
}

} // namespace

namespace pdc {

///     Q -> MatMul K^T -> scale -> mask -> Softmax -> Dropout -> MatMul V -> Transpose
std::optional<Composite> matchAttention(NodeOp root, ConstantMasks &masks, NodeNames &names) {
  const Mixed mixed = mixedBehind(root);
  NodeOp last = mixed.product;
  std::optional<Shares> shares = last ? sharesBehind(last.getOperand(0)) : std::nullopt;
  std::optional<Scores> scores =
      shares ? scoresBehind(shares->scores, shares->readers, masks) : std::nullopt;
  const size_t rank = shares ? shares->shape().size() : 0;
  if (!scores || shapeOf(last->getResult(0)).size() != rank ||
      shapeOf(last.getOperand(1)).size() != rank ||
      llvm::any_of(scores->product.getOperands(),
                   [&](Value operand) { return shapeOf(operand).size() != rank; }))
    return std::nullopt;
  auto operands = operandsOf(scores->product, last, true);
  if (!operands)
    operands = operandsOf(scores->product, last, false);
  if (!operands || (scores->sharesEqually && !isMaskOf((*operands)[0], scores->mask)))
    return std::nullopt;
  auto &[q, k, v] = *operands;
  if (hasSmallScores(q, k))
    return std::nullopt;
  if (scores->temperature)
    q.value = scaledBy(root, q.value, q.shape(), q.rowsFirst, scores->temperature, names);
  if (scores->isInverted)
    scores->mask = inverted(root, scores->mask, names);
  if (scores->sharesEqually) {
    OpBuilder builder(root);
    Value queries = inShape(builder, root, "/headed", q.value, q.shape(), names);
    std::tie(q.value, scores->mask) =
        shareEqually(root, queries, kOrders[q.rowsFirst], scores->mask, names);
  }
  Attributes attributes = {
      {"rows_first", std::vector<int64_t>{q.rowsFirst, k.rowsFirst, v.rowsFirst, mixed.rowsFirst}},
      {"scale", scores->scale * q.scale * k.scale}};
  if (scores->past || scores->hidesLater) {
    attributes.set("is_causal", int64_t(1));
    attributes.set("past", scores->past.value_or(0));
  }
  if (shares->isGuarded && scores->mayHideRows())
    attributes.set("is_guarded", int64_t(1));
  if (shares->random) {
    attributes.set("key", shares->dropout.integer("key", 0));
    attributes.set("ratio", shares->dropout.number("ratio", 0.5));
    attributes.set("samples", shares->samples());
  }
  return Composite{"SoftmaxAttention",
                   {q.value, k.value, v.value, scores->mask, shares->random},
                   attributes,
                   2,
                   {q.shape(), k.shape(), v.shape()}};
}

} // namespace pdc
