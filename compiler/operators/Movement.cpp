#include "compiler/operators/Families.h"
#include "compiler/operators/Rules.h"

namespace pdc {

// Transpose

static std::vector<int64_t> permutation(const NodeView &node, int64_t rank) {
  std::vector<int64_t> perm = node.attributes.integers("perm");
  if (perm.empty())
    for (int64_t d = rank; d-- > 0;)
      perm.push_back(d);
  if (static_cast<int64_t>(perm.size()) != rank)
    refuse(node, "attribute 'perm' is " + shapeText(perm) + " for a tensor of rank " +
                     std::to_string(rank));
  return axesFromStart(node, perm, rank);
}

std::vector<int64_t> permutationOf(const NodeView &node) {
  return permutation(node, node.input(0).rank());
}

static std::vector<TensorType> inferTranspose(const NodeView &node) {
  const TensorType &x = node.input(0);
  TensorType y{x.element, {}};
  for (int64_t d : permutationOf(node))
    y.shape.push_back(x.shape[d]);
  return {y};
}

static std::vector<Tensor> evaluateTranspose(const NodeView &node,
                                             std::span<const Tensor *const> inputs) {
  const Tensor &x = *inputs[0];
  Tensor y = Tensor::zeros(inferTranspose(node)[0]);
  std::vector<int64_t> own = stridesOf(x.type.shape), strides, index(y.type.rank());
  for (int64_t d : permutationOf(node))
    strides.push_back(own[d]);
  for (double &element : y.data) {
    element = x.data[offsetOf(index, strides)];
    advance(index, y.type.shape);
  }
  return {y};
}

static void differentiateTranspose(GradientBuilder &b) {
  if (!b.wants(0))
    return;
  NodeView node{"Transpose", "", b.attributes(), {}, {}, 1};
  std::vector<int64_t> perm = permutation(node, b.type(b.input(0)).rank()), inverse(perm.size());
  for (size_t i = 0; i < perm.size(); ++i)
    inverse[perm[i]] = i;
  b.setInputGradient(0, add(b, "Transpose", {b.outputGradient(0)}, {{"perm", inverse}}));
}

// Concat

static void normaliseConcat(ImportedNode &node, int opset) {
  if (!node.attributes.has("axis"))
    refuse(node, opset, "attribute 'axis' is missing");
}

static int64_t concatAxis(const NodeView &node) {
  return axisFromStart(node, node.attributes.integer("axis", 0), node.input(0).rank());
}

static std::vector<TensorType> inferConcat(const NodeView &node) {
  int64_t axis = concatAxis(node);
  TensorType y = node.input(0);
  for (size_t i = 1; i < node.inputs.size(); ++i) {
    TensorType x = node.input(i);
    int64_t size = x.rank() == y.rank() ? x.shape[axis] : 0;
    if (x.rank() == y.rank())
      x.shape[axis] = y.shape[axis];
    if (x != y)
      refuse(node, "input " + std::to_string(i) + " is " + node.input(i).toString() +
                       " and does not fit " + node.input(0).toString() + " along axis " +
                       std::to_string(axis));
    y.shape[axis] += size;
  }
  return {y};
}

static std::vector<Tensor> evaluateConcat(const NodeView &node,
                                          std::span<const Tensor *const> inputs) {
  Tensor y = Tensor::zeros(inferConcat(node)[0]);
  int64_t axis = concatAxis(node), outer = product(y.type.shape, 0, axis);
  auto to = y.data.begin();
  for (int64_t o = 0; o < outer; ++o)
    for (const Tensor *x : inputs) {
      int64_t block = product(x->type.shape, axis);
      to = std::copy_n(x->data.begin() + o * block, block, to);
    }
  return {y};
}

/// One node for all gradients: kernels of pieces take longer to start than to run where a sequence
/// has been put together of its steps.
static void differentiateConcat(GradientBuilder &b) {
  int64_t rank = b.type(b.input(0)).rank(), axis = b.attributes().integer("axis", 0);
  axis = axis < 0 ? axis + rank : axis;
  std::vector<int64_t> sizes;
  bool wantsAny = false;
  for (size_t i = 0; i < b.inputCount(); ++i) {
    sizes.push_back(b.type(b.input(i)).shape[axis]);
    wantsAny |= b.wants(i);
  }
  if (!wantsAny)
    return;
  const std::vector<GradientValue> parts =
      b.node("Split", {b.outputGradient(0), b.constant(Tensor::vector(sizes))}, {{"axis", axis}},
             sizes.size());
  for (size_t i = 0; i < parts.size(); ++i)
    if (b.wants(i))
      b.setInputGradient(i, parts[i]);
}

// Expand

static std::vector<TensorType> inferExpand(const NodeView &node) {
  const TensorType &x = node.input(0);
  return {{x.element, broadcastShape(node, x.shape, knownIntegers(node, 1))}};
}

static std::vector<Tensor> evaluateExpand(const NodeView &node,
                                          std::span<const Tensor *const> inputs) {
  Tensor y = Tensor::zeros(typesFrom(node, inputs)[0]);
  auto strides = broadcastStrides(inputs[0]->type.shape, y.type.shape);
  std::vector<int64_t> index(y.type.rank());
  for (double &element : y.data) {
    element = inputs[0]->data[offsetOf(index, strides)];
    advance(index, y.type.shape);
  }
  return {y};
}

static void differentiateExpand(GradientBuilder &b) {
  if (b.wants(0))
    b.setInputGradient(0, reducedTo(b, b.outputGradient(0), b.type(b.input(0)).shape));
}

std::span<const Operator> movementOperators() {
  static const Operator operators[] = {
      {.name = "Transpose",
       .firstOpset = kFirstOpset,
       .lastOpset = kLastOpset,
       .inputs = {{"data"}},
       .outputs = {{"transposed"}},
       .infer = inferTranspose,
       .evaluate = evaluateTranspose,
       .differentiate = differentiateTranspose},
      {.name = "Concat",
       .firstOpset = kFirstOpset,
       .lastOpset = kLastOpset,
       .inputs = {{"inputs", false, true}},
       .outputs = {{"concat_result"}},
       .normalise = normaliseConcat,
       .infer = inferConcat,
       .evaluate = evaluateConcat,
       .differentiate = differentiateConcat},
      {.name = "Expand",
       .firstOpset = 8,
       .lastOpset = kLastOpset,
       .inputs = {{"input"}, {.name = "shape", .known = true}},
       .outputs = {{"output"}},
       .infer = inferExpand,
       .evaluate = evaluateExpand,
       .differentiate = differentiateExpand},
  };
  return operators;
}

} // namespace pdc
