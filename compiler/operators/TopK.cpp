#include "compiler/operators/Composition.h"
#include "compiler/operators/Families.h"
#include "compiler/operators/Rules.h"

#include <algorithm>
#include <cmath>
#include <numeric>

/// TopK: where the largest elements are, and the elements gathered from there, which is how their
/// gradient goes back.
namespace pdc {

/// Before opset 10 the count was an attribute.
static void normaliseTopK(ImportedNode &node, int opset) {
  if (opset >= 10)
    return;
  setInput(node, 1, node.addConstant(Tensor::vector({node.attributes.integer("k", 0)})));
  node.attributes.erase("k");
}

static int64_t topAxis(const NodeView &node) {
  return axisFromStart(node, node.attributes.integer("axis", -1), node.input(0).rank());
}

static std::vector<ElementType> comparedElements() {
  std::vector<ElementType> elements = floatElements();
  elements.push_back(ElementType::i64);
  return elements;
}

static std::vector<TensorType> inferTopIndices(const NodeView &node) {
  TensorType y{ElementType::i64, node.input(0).shape};
  const int64_t axis = topAxis(node), count = node.attributes.integer("count", 0);
  if (count < 0 || count > y.shape[axis])
    refuse(node, "takes " + std::to_string(count) + " elements along dimension " +
                     std::to_string(axis) + " of " + node.input(0).toString());
  y.shape[axis] = count;
  return {y};
}

/// The largest first (with largest = 0 the smallest), of equal ones the first; NaN is the largest.
static std::vector<Tensor> evaluateTopIndices(const NodeView &node,
                                              std::span<const Tensor *const> inputs) {
  const Tensor &x = *inputs[0];
  Tensor y = Tensor::zeros(inferTopIndices(node)[0]);
  const int64_t axis = topAxis(node), size = x.type.shape[axis], count = y.type.shape[axis];
  const int64_t inner = product(x.type.shape, axis + 1), outer = product(x.type.shape, 0, axis);
  const bool largest = node.attributes.integer("largest", 1) != 0;
  for (int64_t line = 0; line < outer * inner; ++line) {
    auto at = [&](int64_t k) { return x.data[(line / inner * size + k) * inner + line % inner]; };
    auto isMore = [&](int64_t a, int64_t b) {
      return at(a) > at(b) || (std::isnan(at(a)) && !std::isnan(at(b)));
    };
    std::vector<int64_t> order(size);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](int64_t a, int64_t b) { return largest ? isMore(a, b) : isMore(b, a); });
    for (int64_t k = 0; k < count; ++k)
      y.data[(line / inner * count + k) * inner + line % inner] = static_cast<double>(order[k]);
  }
  return {y};
}

static std::vector<NodeValue> composeTopK(CompositionBuilder &b) {
  const std::vector<int64_t> count = knownIntegers(b, 1);
  if (count.size() != 1)
    b.refuse("input 1 (K) is " + b.type(b.input(1)).toString() + ", expected one integer");
  const int64_t axis = b.attributes().integer("axis", -1);
  // Kernels compare integers of 64 bits.
  NodeValue compared = b.input(0);
  const ElementType element = b.type(compared).element;
  if (!isFloatingPoint(element) && element != ElementType::i64)
    compared = add(b, "Cast", {compared}, {{"to", onnxType(ElementType::i64)}});
  NodeValue indices =
      add(b, "TopKIndices", {compared},
          {{"axis", axis}, {"count", count[0]}, {"largest", b.attributes().integer("largest", 1)}});
  return {add(b, "GatherElements", {b.input(0), indices}, {{"axis", axis}}), indices};
}

std::span<const Operator> topOperators() {
  static const Operator operators[] = {
      {.name = "TopKIndices",
       .inputs = {{"X"}},
       .outputs = {{"Indices"}},
       .elements = comparedElements(),
       .infer = inferTopIndices,
       .evaluate = evaluateTopIndices,
       .stopsGradient = true},
  };
  return operators;
}

std::span<const ComposedOperator> topForms() {
  static const ComposedOperator operators[] = {
      {{.name = "TopK",
        .firstOpset = 1,
        .lastOpset = kLastOpset,
        .inputs = {{"X"}, {.name = "K", .known = true}},
        .outputs = {{"Values"}, {"Indices"}},
        .normalise = normaliseTopK},
       composeTopK},
  };
  return operators;
}

} // namespace pdc
