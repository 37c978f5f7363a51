#include "compiler/operators/Composition.h"
#include "compiler/operators/Rules.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

/// ONNX's Attention (opset 23 to 25, with the errata of ONNX 1.23) and RotaryEmbedding, written as
/// matrix products, softmax and elementwise nodes.
namespace pdc {

static constexpr size_t kMask = 3, kPastKey = 4, kPastValue = 5, kKeyCounts = 6;

/// [batch, heads, sequence, width]: as it is, or [batch, sequence, heads * width] taken apart.
static NodeValue inHeads(CompositionBuilder &b, size_t input, int64_t heads) {
  TensorType x = b.type(b.input(input));
  if (x.rank() == 4)
    return b.input(input);
  if (x.rank() != 3 || heads < 1 || x.shape[2] % heads != 0)
    b.refuse("input " + std::to_string(input) + " is " + x.toString() +
             ", expected rank 4, or rank 3 and " + std::to_string(heads) +
             " heads that divide the last dimension");
  NodeValue apart =
      reshaped(b, b.input(input), {x.shape[0], x.shape[1], heads, x.shape[2] / heads});
  return transposed(b, apart, {0, 2, 1, 3});
}

/// What a cache holds stands before it.
static NodeValue behindPast(CompositionBuilder &b, size_t past, NodeValue x) {
  if (!b.input(past))
    return x;
  return add(b, "Concat", {b.input(past), x}, {{"axis", int64_t(2)}});
}

/// Each head of keys or values serves a group of neighbouring heads of queries.
static NodeValue forHeads(CompositionBuilder &b, NodeValue x, int64_t heads) {
  std::vector<int64_t> shape = b.type(x).shape;
  if (shape[1] == heads)
    return x;
  if (shape[1] < 1 || heads % shape[1] != 0)
    b.refuse(std::to_string(heads) + " heads of queries share " + std::to_string(shape[1]) +
             " of keys, expected a divisor");
  const int64_t group = heads / shape[1];
  NodeValue apart = reshaped(b, x, {shape[0], shape[1], 1, shape[2], shape[3]});
  Tensor whole = Tensor::vector({shape[0], shape[1], group, shape[2], shape[3]});
  NodeValue repeated = add(b, "Expand", {apart, b.constant(whole)});
  return reshaped(b, repeated, {shape[0], heads, shape[2], shape[3]});
}

/// Scores that the mask leaves out become minus infinity; a mask of numbers is added.
static NodeValue masked(CompositionBuilder &b, NodeValue scores, NodeValue mask) {
  ElementType element = b.type(scores).element;
  if (b.type(mask).element != ElementType::boolean)
    return add(b, "Add", {scores, mask});
  NodeValue never = number(b, element, -std::numeric_limits<double>::infinity());
  return add(b, "Where", {mask, scores, never});
}

/// A mask for fewer keys than there are leaves out the last.
static NodeValue forKeys(CompositionBuilder &b, NodeValue mask, int64_t keys) {
  const TensorType type = b.type(mask);
  const int64_t missing = type.rank() ? keys - type.shape.back() : 0;
  if (missing <= 0 || type.shape.back() == 1)
    return mask;
  std::vector<int64_t> pads(2 * type.shape.size(), 0);
  pads.back() = missing;
  const double never =
      type.element == ElementType::boolean ? 0 : -std::numeric_limits<double>::infinity();
  return add(b, "Pad", {mask, b.constant(Tensor::vector(pads)), number(b, type.element, never)});
}

/// Which keys a query sees by their places, where the first query is at place `offset`.
class Places {
public:
  explicit Places(CompositionBuilder &b)
      : b(b), left(b.attributes().integer("left_window_size", -1)),
        right(b.attributes().integer("right_window_size", -1)) {
    if (left < -1 || right < -1)
      b.refuse("windows of " + std::to_string(left) + " keys to the left and " +
               std::to_string(right) + " to the right, expected -1 or more");
    // Far from where sums of places would overflow.
    left = std::min<int64_t>(left, int64_t(1) << 40);
    right = std::min<int64_t>(right, int64_t(1) << 40);
    if (b.attributes().integer("is_causal", 0) != 0)
      right = 0;
  }

  /// Whether a query may be too far from all keys.
  bool mayBeFar() const { return left >= 0; }

  /// bool[queries, keys]; null where each is seen.
  NodeValue behind(int64_t queries, int64_t keys, int64_t offset) const {
    if (left < 0 && right < 0)
      return {};
    Tensor sees = Tensor::zeros({ElementType::boolean, {queries, keys}});
    for (int64_t i = 0; i < queries * keys; ++i) {
      const int64_t before = i / keys + offset - i % keys;
      sees.data[i] = (left < 0 || before <= left) && (right < 0 || -before <= right);
    }
    return b.constant(std::move(sees));
  }

  /// bool[batch, 1, queries, keys]: of each sample, that many keys are there (i64[batch]), the
  /// queries' own the last.
  NodeValue among(NodeValue count, int64_t queries, int64_t keys) const {
    const int64_t samples = b.type(b.input(0)).shape[0];
    if (b.type(count) != TensorType{ElementType::i64, {samples}})
      b.refuse("nonpad_kv_seqlen is " + b.type(count).toString() + ", expected i64[" +
               std::to_string(samples) + "]");
    NodeValue counts = reshaped(b, count, {samples, 1, 1, 1});
    Tensor places = Tensor::zeros({ElementType::i64, {keys}});
    std::iota(places.data.begin(), places.data.end(), 0);
    Tensor distances = Tensor::zeros({ElementType::i64, {queries, keys}});
    for (int64_t i = 0; i < queries * keys; ++i)
      distances.data[i] = static_cast<double>(i % keys - i / keys);
    NodeValue sees = add(b, "Less", {b.constant(std::move(places)), counts});
    NodeValue steps = b.constant(std::move(distances));
    if (right >= 0)
      sees = add(b, "And",
                 {sees, add(b, "LessOrEqual", {steps, shifted(counts, right - queries)})});
    if (left >= 0)
      sees = add(b, "And",
                 {sees, add(b, "GreaterOrEqual", {steps, shifted(counts, -left - queries)})});
    return sees;
  }

private:
  NodeValue shifted(NodeValue counts, int64_t by) const {
    return add(b, "Add", {counts, number(b, ElementType::i64, static_cast<double>(by))});
  }

  CompositionBuilder &b;
  int64_t left, right;
};

/// The stages of the scores, in the order in which attribute `qk_matmul_output_mode` counts them.
struct Scores {
  NodeValue products, capped, masked, shares;
};

/// A query that sees no key has shares of zero, and no gradient; what is no number stays so.
static NodeValue guardedShares(CompositionBuilder &b, NodeValue scores) {
  const ElementType element = b.type(scores).element;
  NodeValue zero = number(b, element, 0);
  NodeValue most = add(b, "ReduceMax", {scores, b.constant(Tensor::vector({-1}))},
                       {{"keepdims", int64_t(1)}});
  NodeValue isUnseen =
      add(b, "Equal", {most, number(b, element, -std::numeric_limits<double>::infinity())});
  NodeValue seen = add(b, "Where", {isUnseen, zero, scores});
  return add(b, "Where",
             {isUnseen, zero, add(b, "Softmax", {seen}, {{"axis", int64_t(-1)}})});
}

static Scores scoresOf(CompositionBuilder &b, NodeValue queries, NodeValue keys) {
  const TensorType q = b.type(queries);
  const double scale = b.attributes().number("scale", 1 / std::sqrt(double(q.shape[3])));
  NodeValue scaled = add(b, "Mul", {queries, number(b, q.element, scale)});
  Scores scores;
  scores.products = add(b, "MatMul", {scaled, transposed(b, keys, {0, 1, 3, 2})});
  scores.capped = scores.products;
  if (const double cap = b.attributes().number("softcap", 0); cap > 0) {
    NodeValue limit = number(b, q.element, cap);
    NodeValue share = add(b, "Tanh", {add(b, "Div", {scores.products, limit})});
    scores.capped = add(b, "Mul", {share, limit});
  }
  const int64_t count = b.type(keys).shape[2];
  const int64_t past = b.input(kPastKey) ? b.type(b.input(kPastKey)).shape.at(2) : 0;
  const Places places(b);
  NodeValue seen = b.input(kKeyCounts) ? places.among(b.input(kKeyCounts), q.shape[2], count)
                                       : places.behind(q.shape[2], count, past);
  scores.masked = seen ? masked(b, scores.capped, seen) : scores.capped;
  if (b.input(kMask))
    scores.masked = masked(b, scores.masked, forKeys(b, b.input(kMask), count));
  const bool mayBeUnseen = b.input(kMask) || b.input(kKeyCounts) || places.mayBeFar();
  scores.shares = mayBeUnseen ? guardedShares(b, scores.masked)
                              : add(b, "Softmax", {scores.masked}, {{"axis", int64_t(-1)}});
  return scores;
}

static std::vector<NodeValue> composeAttention(CompositionBuilder &b) {
  if (!b.input(kPastKey) != !b.input(kPastValue))
    b.refuse("has one of past_key and past_value, expected both or neither");
  if (b.input(kKeyCounts) && b.input(kPastKey))
    b.refuse("has nonpad_kv_seqlen and past_key, expected one of them");
  const int64_t queryHeads = b.attributes().integer("q_num_heads", 0);
  const int64_t keyHeads = b.attributes().integer("kv_num_heads", 0);
  NodeValue queries = inHeads(b, 0, queryHeads);
  NodeValue keys = behindPast(b, kPastKey, inHeads(b, 1, keyHeads));
  NodeValue values = behindPast(b, kPastValue, inHeads(b, 2, keyHeads));
  const std::vector<int64_t> shape = b.type(queries).shape;
  Scores scores = scoresOf(b, queries, forHeads(b, keys, shape[1]));
  NodeValue y = add(b, "MatMul", {scores.shares, forHeads(b, values, shape[1])});
  if (b.type(b.input(0)).rank() == 3)
    y = reshaped(b, transposed(b, y, {0, 2, 1, 3}),
                 {shape[0], shape[2], shape[1] * b.type(y).shape[3]});
  const int64_t mode = b.attributes().integer("qk_matmul_output_mode", 0);
  if (mode < 0 || mode > 3)
    b.refuse("qk_matmul_output_mode is " + std::to_string(mode) + ", expected 0 to 3");
  const NodeValue seen[] = {scores.products, scores.capped, scores.masked, scores.shares};
  return {y, keys, values, seen[mode]};
}

// RotaryEmbedding

/// x as [batch, ., ., width], and where its heads are among the two dimensions between.
struct Rotated {
  NodeValue x;
  size_t heads;
};

static Rotated rotatedOf(CompositionBuilder &b) {
  const TensorType x = b.type(b.input(0));
  if (x.rank() == 4)
    return {b.input(0), 1};
  const int64_t heads = b.attributes().integer("num_heads", 0);
  if (x.rank() != 3 || heads < 1 || x.shape[2] % heads != 0)
    b.refuse("input " + x.toString() + ", expected rank 4, or rank 3 and " + std::to_string(heads) +
             " heads (num_heads) that divide the last dimension");
  return {reshaped(b, b.input(0), {x.shape[0], x.shape[1], heads, x.shape[2] / heads}), 2};
}

/// Cosines or sines of each position: [batch, positions, width / 2], 1 where the heads are.
static NodeValue anglesOf(CompositionBuilder &b, size_t input, const Rotated &rotated,
                          int64_t half) {
  NodeValue cache = b.input(input);
  if (b.input(3))
    cache = add(b, "Gather", {cache, b.input(3)}, {{"axis", int64_t(0)}});
  std::vector<int64_t> shape = b.type(cache).shape;
  if (shape.size() != 3 || shape[2] != half)
    b.refuse("input " + std::to_string(input) + " gives " + b.type(cache).toString() +
             ", expected " + std::to_string(half) + " numbers per sample and position");
  shape.insert(shape.begin() + static_cast<int64_t>(rotated.heads), 1);
  return reshaped(b, cache, shape);
}

static std::vector<NodeValue> splitLast(CompositionBuilder &b, NodeValue x,
                                        const std::vector<int64_t> &sizes) {
  return b.node("Split", {x, b.constant(Tensor::vector(sizes))}, {{"axis", int64_t(-1)}},
                sizes.size());
}

/// The angles of both of two numbers that are turned together: of half a width, for the whole.
static NodeValue ofBoth(CompositionBuilder &b, NodeValue angles, bool areNeighbours) {
  std::vector<int64_t> half = b.type(angles).shape, width = half;
  width.back() *= 2;
  half.push_back(1);
  if (areNeighbours)
    angles = reshaped(b, angles, half);
  return reshaped(b, add(b, "Concat", {angles, angles}, {{"axis", int64_t(-1)}}), width);
}

/// Pairs of numbers turned by the angle: those of both halves, or neighbours with `interleaved`.
static NodeValue turned(CompositionBuilder &b, NodeValue x, NodeValue cosine, NodeValue sine) {
  const bool areNeighbours = b.attributes().integer("interleaved", 0) != 0;
  return add(b, "RotateHalves",
             {x, ofBoth(b, cosine, areNeighbours), ofBoth(b, sine, areNeighbours)},
             {{"inverse", int64_t(0)}, {"interleaved", int64_t(areNeighbours)}});
}

static std::vector<NodeValue> composeRotary(CompositionBuilder &b) {
  Rotated rotated = rotatedOf(b);
  const int64_t width = b.type(rotated.x).shape[3];
  int64_t turns = b.attributes().integer("rotary_embedding_dim", 0);
  turns = turns == 0 ? width : turns;
  if (turns < 2 || turns > width || turns % 2 != 0)
    b.refuse("turns " + std::to_string(turns) + " of " + std::to_string(width) +
             " numbers (rotary_embedding_dim), expected an even number of them");
  NodeValue cosine = anglesOf(b, 1, rotated, turns / 2);
  NodeValue sine = anglesOf(b, 2, rotated, turns / 2);
  NodeValue y;
  if (turns == width) {
    y = turned(b, rotated.x, cosine, sine);
  } else {
    std::vector<NodeValue> parts = splitLast(b, rotated.x, {turns, width - turns});
    y = add(b, "Concat", {turned(b, parts[0], cosine, sine), parts[1]}, {{"axis", int64_t(-1)}});
  }
  return {reshaped(b, y, b.type(b.input(0)).shape)};
}

std::span<const ComposedOperator> attentionForms() {
  static const ComposedOperator operators[] = {
      {{.name = "Attention",
        .firstOpset = 23,
        .lastOpset = kLastOpset,
        .inputs = {{"Q"},
                   {"K"},
                   {"V"},
                   {"attn_mask", true},
                   {"past_key", true},
                   {"past_value", true},
                   {"nonpad_kv_seqlen", true}},
        .outputs =
            {{"Y"}, {"present_key", true}, {"present_value", true}, {"qk_matmul_output", true}},
        .elements = floatElements()},
       composeAttention},
      {{.name = "RotaryEmbedding",
        .firstOpset = 23,
        .lastOpset = kLastOpset,
        .inputs = {{"X"}, {"cos_cache"}, {"sin_cache"}, {"position_ids", true}},
        .outputs = {{"Y"}},
        .elements = floatElements()},
       composeRotary},
  };
  return operators;
}

} // namespace pdc
