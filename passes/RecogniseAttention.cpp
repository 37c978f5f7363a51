#include "compiler/operators/Random.h"
#include "compiler/operators/Rules.h"
#include "passes/JoinedMasks.h"

#include <algorithm>
#include <limits>

using namespace mlir;
using namespace pdc;
using namespace pdc::ir;

namespace {

/// The shares, and what dropout draws from where they pass one.
struct Shares {
  NodeOp softmax;
  Value scores;         ///< what the softmax is of, before a guard
  unsigned readers = 1; ///< uses of the scores
  Value random;
  Attributes dropout;
  /// Whether rows of which nothing is seen, whose softmax is no number, become zeros.
  bool isGuarded = false;

  ArrayRef<int64_t> shape() { return shapeOf(softmax->getResult(0)); }
  /// That dropout draws for, each of which has as many heads.
  int64_t samples = 1;
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

/// What views read that nobody else does, from a value that one reads.
Value unviewed(Value value) {
  while (Value viewed = value.hasOneUse() ? viewedRows(value) : Value())
    value = viewed;
  return value;
}

std::optional<Shares> sharesBehind(Value value) {
  Shares shares;
  value = unviewed(value);
  if (!value.hasOneUse())
    return std::nullopt;
  if (NodeOp dropout = maker(value, "Dropout")) {
    shares.dropout = toAttributes(dropout.getOnnxAttributes());
    if (!shares.dropout.has("key"))
      return std::nullopt;
    shares.random = dropout.getOperand(1);
    shares.samples =
        samplesAndElements(shapeOf(value).vec(), toTensorType(shares.random.getType()))[0];
    value = unviewed(dropout.getOperand(0));
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
  if (!shares.softmax || rank < 3)
    return std::nullopt;
  if (shares.readers == 1)
    shares.scores = shares.softmax.getOperand(0);
  const int64_t axis = toAttributes(shares.softmax.getOnnxAttributes()).integer("axis", -1);
  return axis == -1 || axis == rank - 1 ? std::optional(shares) : std::nullopt;
}

/// Queries, keys and values; the heads of keys and values are shared or repeated alike.
std::optional<std::array<HeadedRows, 3>> operandsOf(NodeOp product, NodeOp mixed,
                                                    const ScoreHeads &heads, bool sharesHeads) {
  auto q = headedRowsBehind(product.getOperand(0), heads, false, false);
  auto k = headedRowsBehind(product.getOperand(1), heads, true, sharesHeads);
  auto v = headedRowsBehind(mixed.getOperand(1), heads, false, sharesHeads);
  if (!q || !k || !v || v->scale != 1)
    return std::nullopt;
  // A query that is the same for all heads may be one.
  const bool fits = q->sizes[kBatch] == k->sizes[kBatch] && k->sizes[kBatch] == v->sizes[kBatch] &&
                    k->sizes[kHeads] == v->sizes[kHeads] &&
                    q->sizes[kHeads] % k->sizes[kHeads] == 0 &&
                    q->sizes[kBatch] * q->sizes[kHeads] == heads.all();
  return fits ? std::optional(std::array{*q, *k, *v}) : std::nullopt;
}

/// Whether scores are few beside what they are made of, as of channels over all of an image:
/// products compute them as well, and no kernel has heads so wide.
bool hasSmallScores(const HeadedRows &queries, const HeadedRows &keys) {
  const int64_t width = queries.sizes[kWidth];
  return width > kWideHead && width > kManyTimes * keys.sizes[kRows];
}

/// Whether a product is one of matrices, each with its own: [.., rows, n] with [.., n, width].
bool isOfMatrices(NodeOp node) {
  const size_t rank = shapeOf(node->getResult(0)).size();
  return node.getOp() == "MatMul" && rank >= 3 &&
         !llvm::is_contained(shapeOf(node->getResult(0)), 0) &&
         llvm::all_of(node.getOperands(),
                      [&](Value operand) { return shapeOf(operand).size() == rank; });
}

/// Whether all that is done to scores can be told for these heads.
bool haveForm(const Scores &scores, const AttentionMasks &masks, const ScoreHeads &heads) {
  auto hasForm = [&](const auto &told) {
    return heads.form(shapeOf(told.value), told.scoresShape, true).has_value();
  };
  return llvm::all_of(masks.joined, hasForm) && (!masks.sharing || hasForm(*masks.sharing)) &&
         (!scores.temperature || hasForm(*scores.temperature));
}

/// What an attention is made of.
struct FoundAttention {
  Shares shares;
  Scores scores;
  AttentionMasks masks;
  ScoreHeads heads;
  std::array<HeadedRows, 3> operands; ///< queries, keys and values
  int64_t order;                      ///< of the result
};

std::optional<FoundAttention> findAttention(NodeOp root, ConstantMasks &constants) {
  const MixedValues mixed = MixedValues::behind(root);
  NodeOp last = mixed.product;
  if (!last || !isOfMatrices(last))
    return std::nullopt;
  std::optional<Shares> shares = sharesBehind(last.getOperand(0));
  std::optional<Scores> scores =
      shares ? scoresBehind(shares->scores, shares->readers) : std::nullopt;
  std::optional<AttentionMasks> masks =
      scores ? togetherOf(scores->masks, constants) : std::nullopt;
  if (!masks || !isOfMatrices(scores->product))
    return std::nullopt;
  for (Value form : {shares->softmax->getResult(0), last->getResult(0)})
    scores->addForm(shapeOf(form));
  const ScoreHeads heads(scores->leading);
  const std::optional<int64_t> order = mixed.order(heads);
  auto operands = operandsOf(scores->product, last, heads, true);
  if (!operands)
    operands = operandsOf(scores->product, last, heads, false);
  if (!order || !operands || !haveForm(*scores, *masks, heads) ||
      hasSmallScores((*operands)[0], (*operands)[1]))
    return std::nullopt;
  return FoundAttention{*shares, *scores, *masks, heads, *operands, *order};
}

Attributes attributesOf(const FoundAttention &found, int64_t inTurn) {
  const auto &[q, k, v] = found.operands;
  const AttentionMasks &masks = found.masks;
  const Shares &shares = found.shares;
  Attributes attributes = {
      {"rows_first", std::vector<int64_t>{q.rowsFirst, k.rowsFirst, v.rowsFirst, found.order}},
      {"scale", found.scores.scale * q.scale * k.scale}};
  if (masks.past || masks.hidesLater) {
    attributes.set("is_causal", int64_t(1));
    attributes.set("past", masks.past.value_or(0));
  }
  if (inTurn)
    attributes.set("masks", inTurn);
  if (shares.isGuarded && masks.mayHideRows)
    attributes.set("is_guarded", int64_t(1));
  if (shares.random) {
    attributes.set("key", shares.dropout.integer("key", 0));
    attributes.set("ratio", shares.dropout.number("ratio", 0.5));
    attributes.set("samples", shares.samples);
  }
  return attributes;
}

} // namespace

namespace pdc {

bool hasOtherMasks(NodeOp last, ConstantMasks &masks) {
  std::optional<Shares> shares = sharesBehind(last.getOperand(0));
  std::optional<Scores> scores =
      shares ? scoresBehind(shares->scores, shares->readers) : std::nullopt;
  return scores && !togetherOf(scores->masks, masks);
}

///     Q -> MatMul K^T -> scale -> mask -> Softmax -> Dropout -> MatMul V -> Transpose
std::optional<Composite> matchAttention(NodeOp root, ConstantMasks &masks, NodeNames &names) {
  std::optional<FoundAttention> found = findAttention(root, masks);
  if (!found)
    return std::nullopt;
  auto &[q, k, v] = found->operands;
  JoinedMasks joined(root, found->heads, kAttentionOrders[q.rowsFirst], names);
  if (found->scores.temperature || found->masks.sharing) {
    OpBuilder builder(root);
    q.value = inShape(builder, root, "/headed", q.value, q.shape(), names);
  }
  if (found->scores.temperature)
    q.value = joined.scaled(*found->scores.temperature, q.value);
  const auto [queries, mask, inTurn] = joined.join(found->masks, q.value);
  return Composite{"SoftmaxAttention",
                   {queries, k.value, v.value, mask, found->shares.random},
                   attributesOf(*found, inTurn),
                   2,
                   {q.shape(), k.shape(), v.shape()}};
}

} // namespace pdc
