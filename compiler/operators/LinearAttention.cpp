#include "compiler/operators/Composition.h"
#include "compiler/operators/Rules.h"

#include <algorithm>
#include <cmath>
#include <limits>

/// Attention whose memory is a matrix per head, as linear attention, RetNet, Mamba 2 and (gated)
/// DeltaNet have it (ONNX LinearAttention, opset 27):
///
///     S_t = exp(g_t) S_{t-1} + k_t v'_t^T        o_t = scale q_t^T S_t
///     v'_t = v_t, or beta_t (v_t - k_t^T exp(g_t) S_{t-1})
///
/// It is written chunk by chunk: within one by matrix products of all its steps, between them by
/// the state (Yang et al., Gated Linear Attention Transformers with Hardware-Efficient Training,
/// section 4; Parallelizing Linear Transformers with the Delta Rule, section 3).
namespace pdc {

namespace {

enum Input : size_t { kQuery, kKey, kValue, kState, kDecay, kBeta };

class LinearAttention {
public:
  explicit LinearAttention(CompositionBuilder &b)
      : b(b), queryHeads(b.attributes().integer("q_num_heads", 0)),
        heads(b.attributes().integer("kv_num_heads", 0)) {
    const std::string rule = b.attributes().string("update_rule", "gated_delta");
    decays = rule == "gated" || rule == "gated_delta";
    corrects = rule == "delta" || rule == "gated_delta";
    if (!decays && !corrects && rule != "linear")
      b.refuse("update_rule '" + rule +
               "' is not supported; supported are linear, gated, delta and gated_delta");
    if (!b.input(kDecay) == decays || !b.input(kBeta) == corrects)
      b.refuse("update_rule '" + rule + "' " + (decays ? "needs decay" : "has no decay") + " and " +
               (corrects ? "needs beta" : "has no beta"));
    readShapes();
  }

  std::vector<NodeValue> run() {
    splitAll();
    NodeValue state = b.input(kState);
    if (!state)
      state = b.constant(Tensor::zeros({element, {batch, heads, width, valueWidth}}));
    std::vector<NodeValue> outputs;
    for (size_t chunk = 0; chunk < sizes.size(); ++chunk) {
      steps = sizes[chunk];
      outputs.push_back(chunkOf(chunk, state));
    }
    NodeValue all =
        outputs.size() == 1 ? outputs[0] : add(b, "Concat", outputs, {{"axis", int64_t(3)}});
    // [batch, heads, group, time, width] by steps.
    return {
        reshaped(b, transposed(b, all, {0, 3, 1, 2, 4}), {batch, length, queryHeads * valueWidth}),
        state};
  }

private:
  void readShapes() {
    const TensorType q = b.type(b.input(kQuery)), k = b.type(b.input(kKey)),
                     v = b.type(b.input(kValue));
    element = q.element;
    const bool haveRanks = q.rank() == 3 && k.rank() == 3 && v.rank() == 3;
    if (!haveRanks || heads < 1 || queryHeads < 1 || queryHeads % heads != 0 ||
        q.shape[2] % queryHeads != 0 || k.shape[2] % heads != 0 || v.shape[2] % heads != 0 ||
        q.shape[2] / queryHeads != k.shape[2] / heads || k.shape[0] != q.shape[0] ||
        v.shape[0] != q.shape[0] || k.shape[1] != q.shape[1] || v.shape[1] != q.shape[1])
      b.refuse("query " + q.toString() + ", key " + k.toString() + " and value " + v.toString() +
               " do not fit " + std::to_string(queryHeads) + " and " + std::to_string(heads) +
               " heads (q_num_heads, kv_num_heads), [batch, length, heads * width] each");
    batch = q.shape[0], length = q.shape[1], width = k.shape[2] / heads;
    valueWidth = v.shape[2] / heads, group = queryHeads / heads;
    auto lastOf = [&](Input input) {
      const TensorType type = b.type(b.input(input));
      if (type.rank() != 3 || type.shape[0] != batch || type.shape[1] != length)
        b.refuse("input " + std::to_string(input) + " is " + type.toString() +
                 ", expected [batch, length, .] of query " + q.toString());
      return type.shape[2];
    };
    if (decays)
      ofEachElement = lastOf(kDecay) != heads;
    if (decays && ofEachElement && lastOf(kDecay) != heads * width)
      b.refuse("decay " + b.type(b.input(kDecay)).toString() + ", expected " +
               std::to_string(heads) + " or " + std::to_string(heads * width) + " per step");
    if (corrects && lastOf(kBeta) != heads && lastOf(kBeta) != 1)
      b.refuse("beta " + b.type(b.input(kBeta)).toString() + ", expected " + std::to_string(heads) +
               " or 1 per step");
    const double given = b.attributes().number("scale", 0);
    scale = given != 0 ? given : 1 / std::sqrt(static_cast<double>(width));
  }

  /// Each input by heads, [batch, heads, time, width], in its chunks. Decays of each element are
  /// multiplied one by one, which takes memory for all pairs of steps: their chunks are short.
  void splitAll() {
    const int64_t most = b.attributes().integer("chunk_size", 64);
    const int64_t size = std::clamp<int64_t>(most, 1, ofEachElement ? 16 : 256);
    for (int64_t begin = 0; begin < length; begin += size)
      sizes.push_back(std::min(size, length - begin));
    // The heads of a group follow each other.
    NodeValue q = reshaped(b, b.input(kQuery), {batch, length, heads, group, width});
    q = add(b, "Mul", {q, number(b, element, scale)});
    queries = inChunks(transposed(b, q, {0, 2, 3, 1, 4}), 3);
    keys = inChunks(byHeads(kKey), 2);
    values = inChunks(byHeads(kValue), 2);
    if (decays)
      logs = inChunks(byHeads(kDecay), 2);
    if (corrects)
      betas = inChunks(byHeads(kBeta), 2);
  }

  NodeValue byHeads(Input input) {
    const int64_t last = b.type(b.input(input)).shape[2], own = last == 1 ? 1 : heads;
    return transposed(b, reshaped(b, b.input(input), {batch, length, own, last / own}),
                      {0, 2, 1, 3});
  }

  std::vector<NodeValue> inChunks(NodeValue x, int64_t axis) {
    if (sizes.size() == 1)
      return {x};
    return b.node("Split", {x, b.constant(Tensor::vector(sizes))}, {{"axis", axis}}, sizes.size());
  }

  /// What the chunk's queries find; `state` becomes that behind it.
  NodeValue chunkOf(size_t chunk, NodeValue &state) {
    NodeValue q = queries[chunk], k = keys[chunk], v = values[chunk];
    const NodeValue flat = flattened(q);
    NodeValue sum, fromStart, kept = state, faded = k;
    if (decays) {
      // Of all steps from the chunk's first on, and of those behind each to its last.
      sum = add(b, "CumSum", {logs[chunk], number(b, ElementType::i64, 2)});
      fromStart = add(b, "Exp", {sum});
      NodeValue all = add(b, "Slice", {sum, vectorOf(steps - 1), vectorOf(steps), vectorOf(2)});
      kept = add(b, "Mul", {state, add(b, "Exp", {transposed(b, all, {0, 1, 3, 2})})});
      faded = add(b, "Mul", {k, add(b, "Exp", {add(b, "Sub", {all, sum})})});
    }
    if (corrects)
      v = corrected(chunk, state, sum, fromStart);
    NodeValue seen = flat;
    if (decays)
      seen = flattened(add(b, "Mul", {q, unsqueezed(fromStart)}));
    NodeValue before = add(b, "MatMul", {seen, state});
    NodeValue within =
        add(b, "MatMul", {flattened(pairs(q, unsqueezed(k), unsqueezed(sum), true)), v});
    state = add(b, "Add", {kept, add(b, "MatMul", {transposed(b, faded, {0, 1, 3, 2}), v})});
    return reshaped(b, add(b, "Add", {before, within}), {batch, heads, group, steps, valueWidth});
  }

  /// v' of all steps: (I + beta M) v' = beta (v - k^T S), where M has the products of keys with
  /// those of earlier steps.
  NodeValue corrected(size_t chunk, NodeValue state, NodeValue sum, NodeValue fromStart) {
    NodeValue k = keys[chunk];
    NodeValue reading = fromStart ? add(b, "Mul", {k, fromStart}) : k;
    NodeValue rest = add(b, "Sub", {values[chunk], add(b, "MatMul", {reading, state})});
    NodeValue products = reshaped(b, pairs(unsqueezed(k), unsqueezed(k), unsqueezed(sum), false),
                                  {batch, heads, steps, steps});
    NodeValue inverse = inverseOf(add(b, "Mul", {products, betas[chunk]}));
    return add(b, "MatMul", {inverse, add(b, "Mul", {rest, betas[chunk]})});
  }

  /// The inverse of I + `lower`, which has zeros on and above its diagonal: that of its diagonal
  /// blocks of one row, of two, and so on, as forward substitution goes.
  NodeValue inverseOf(NodeValue lower) {
    Tensor identity = Tensor::zeros({element, {steps, steps}});
    for (int64_t i = 0; i < steps; ++i)
      identity.data[i * steps + i] = 1;
    NodeValue inverse = b.constant(std::move(identity));
    for (int64_t size = 1; size < steps; size *= 2) {
      Tensor below = Tensor::zeros({element, {steps, steps}});
      for (int64_t i = 0; i < steps * steps; ++i)
        below.data[i] = i / steps / size % 2 == 1 && i % steps / size == i / steps / size - 1;
      NodeValue part = add(b, "Mul", {lower, b.constant(std::move(below))});
      NodeValue moved = add(b, "MatMul", {add(b, "MatMul", {inverse, part}), inverse});
      inverse = add(b, "Sub", {inverse, moved});
    }
    return inverse;
  }

  /// [batch, heads, ., steps, steps]: sums over the width of x_i y_j exp(g from behind j to i),
  /// for j before i, or i itself too.
  NodeValue pairs(NodeValue x, NodeValue y, NodeValue sum, bool withItself) {
    Tensor sees = Tensor::zeros({ElementType::boolean, {steps, steps}});
    for (int64_t i = 0; i < steps * steps; ++i)
      sees.data[i] = i % steps < i / steps + (withItself ? 1 : 0);
    const double nothing = -std::numeric_limits<double>::infinity();
    if (ofEachElement) {
      sees.type.shape = {steps, steps, 1};
      NodeValue gap = add(b, "Sub", {withStep(sum, 4), withStep(sum, 3)});
      NodeValue fade =
          add(b, "Exp", {add(b, "Where", {b.constant(sees), gap, number(b, element, nothing)})});
      NodeValue products = add(b, "Mul", {withStep(x, 4), withStep(y, 3)});
      return add(b, "ReduceSum", {add(b, "Mul", {products, fade}), vectorOf(5)},
                 {{"keepdims", int64_t(0)}});
    }
    NodeValue products = add(b, "MatMul", {x, transposed(b, y, {0, 1, 2, 4, 3})});
    if (!sum)
      return add(b, "Where", {b.constant(sees), products, number(b, element, 0)});
    NodeValue gap = add(b, "Sub", {sum, transposed(b, sum, {0, 1, 2, 4, 3})});
    NodeValue fade =
        add(b, "Exp", {add(b, "Where", {b.constant(sees), gap, number(b, element, nothing)})});
    return add(b, "Mul", {products, fade});
  }

  NodeValue vectorOf(int64_t number) { return b.constant(Tensor::vector({number})); }

  /// A dimension of one for the group of queries.
  NodeValue unsqueezed(NodeValue x) { return x ? withStep(x, 2) : x; }

  NodeValue withStep(NodeValue x, int64_t axis) {
    std::vector<int64_t> shape = b.type(x).shape;
    shape.insert(shape.begin() + axis, 1);
    return reshaped(b, x, shape);
  }

  /// [batch, heads, group, steps, .] with the steps of all queries of a group behind one another.
  NodeValue flattened(NodeValue x) {
    return reshaped(b, x, {batch, heads, group * steps, b.type(x).shape.back()});
  }

  CompositionBuilder &b;
  const int64_t queryHeads, heads;
  bool decays = false, corrects = false, ofEachElement = false;
  ElementType element = ElementType::f32;
  int64_t batch = 0, length = 0, width = 0, valueWidth = 0, group = 1, steps = 0;
  double scale = 1;
  std::vector<int64_t> sizes; ///< of the chunks
  std::vector<NodeValue> queries, keys, values, logs, betas;
};

std::vector<NodeValue> composeLinearAttention(CompositionBuilder &b) {
  return LinearAttention(b).run();
}

} // namespace

std::span<const ComposedOperator> linearAttentionForms() {
  static const ComposedOperator operators[] = {
      {{.name = "LinearAttention",
        .firstOpset = 27,
        .lastOpset = kLastOpset,
        .inputs =
            {{"query"}, {"key"}, {"value"}, {"past_state", true}, {"decay", true}, {"beta", true}},
        .outputs = {{"output"}, {"present_state", true}},
        .elements = floatElements()},
       composeLinearAttention},
  };
  return operators;
}

} // namespace pdc
