#include "compiler/operators/Composition.h"
#include "compiler/operators/Families.h"
#include "compiler/operators/Rules.h"

#include <cmath>

/// Operators that walk along one axis: ArgMax, CumSum.
namespace pdc {

/// Calls visit(offset of element 0, stride) for each line along the axis.
template <class Visit>
static void forEachLine(const std::vector<int64_t> &shape, int64_t axis, Visit visit) {
  int64_t outer = product(shape, 0, axis), inner = product(shape, axis + 1);
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < inner; ++i)
      visit(o * shape[axis] * inner + i, inner);
}

static int64_t argAxis(const NodeView &node) {
  return axisFromStart(node, node.attributes.integer("axis", 0), node.input(0).rank());
}

static std::vector<TensorType> inferArgMax(const NodeView &node) {
  const TensorType &x = node.input(0);
  TensorType y{ElementType::i64, x.shape};
  int64_t axis = argAxis(node);
  if (x.shape[axis] == 0)
    refuse(node, "dimension " + std::to_string(axis) + " of " + x.toString() + " has no element");
  if (node.attributes.integer("keepdims", 1))
    y.shape[axis] = 1;
  else
    y.shape.erase(y.shape.begin() + axis);
  return {y};
}

/// The first of equal elements, or the last with select_last_index; NaN is the largest.
static std::vector<Tensor> evaluateArgMax(const NodeView &node,
                                          std::span<const Tensor *const> inputs) {
  const Tensor &x = *inputs[0];
  Tensor y = Tensor::zeros(inferArgMax(node)[0]);
  int64_t axis = argAxis(node), line = 0;
  bool takesLast = node.attributes.integer("select_last_index", 0) != 0;
  forEachLine(x.type.shape, axis, [&](int64_t start, int64_t stride) {
    int64_t best = 0;
    for (int64_t k = 1; k < x.type.shape[axis]; ++k) {
      double value = x.data[start + k * stride], most = x.data[start + best * stride];
      if (value > most || (std::isnan(value) && !std::isnan(most)) ||
          (takesLast && (value == most || (std::isnan(value) && std::isnan(most)))))
        best = k;
    }
    y.data[line++] = static_cast<double>(best);
  });
  return {y};
}

// CumSum

static int64_t sumAxis(const NodeView &node) {
  std::vector<int64_t> axis = knownIntegers(node, 1);
  if (axis.size() != 1)
    refuse(node, "input 1 (axis) is " + node.input(1).toString() + ", expected one integer");
  return axisFromStart(node, axis[0], node.input(0).rank());
}

/// Of masks their sums are positions, and of tokens the largest may be where a text ends.
static std::vector<ElementType> countedElements() {
  std::vector<ElementType> elements = floatElements();
  elements.insert(elements.end(), {ElementType::i32, ElementType::i64});
  return elements;
}

static std::vector<TensorType> inferCumSum(const NodeView &node) {
  sumAxis(node);
  return {node.input(0)};
}

static std::vector<Tensor> evaluateCumSum(const NodeView &node,
                                          std::span<const Tensor *const> inputs) {
  NodeView known = node;
  known.constants = inputs;
  const Tensor &x = *inputs[0];
  Tensor y = x;
  int64_t axis = sumAxis(known), size = x.type.shape[axis];
  bool isExclusive = node.attributes.integer("exclusive", 0) != 0;
  bool isReversed = node.attributes.integer("reverse", 0) != 0;
  forEachLine(x.type.shape, axis, [&](int64_t start, int64_t stride) {
    double sum = 0;
    for (int64_t k = 0; k < size; ++k) {
      int64_t at = start + (isReversed ? size - 1 - k : k) * stride;
      y.data[at] = isExclusive ? sum : sum + x.data[at];
      sum += x.data[at];
    }
  });
  return {y};
}

/// Each element went into the sums behind it: their gradients are summed from the other end.
static void differentiateCumSum(GradientBuilder &b) {
  if (!b.wants(0))
    return;
  Attributes attributes = b.attributes();
  attributes.set("reverse", int64_t(b.attributes().integer("reverse", 0) == 0));
  b.setInputGradient(0, add(b, "CumSum", {b.outputGradient(0), b.input(1)}, attributes));
}

/// Kernels sum integers of 64 bits; the sums wrap around as those of 32 bits do.
static std::vector<NodeValue> composeCumSum(CompositionBuilder &b) {
  if (b.type(b.input(0)).element != ElementType::i32)
    return {};
  NodeValue wide = add(b, "Cast", {b.input(0)}, {{"to", onnxType(ElementType::i64)}});
  NodeValue sum = add(b, "CumSum", {wide, b.input(1)}, b.attributes());
  return {add(b, "Cast", {sum}, {{"to", onnxType(ElementType::i32)}})};
}

std::span<const ComposedForm> alongAxisForms() {
  static const ComposedForm forms[] = {{"CumSum", composeCumSum}};
  return forms;
}

std::span<const Operator> alongAxisOperators() {
  static const Operator operators[] = {
      {.name = "ArgMax",
       .firstOpset = 1,
       .lastOpset = kLastOpset,
       .inputs = {{"data"}},
       .outputs = {{"reduced"}},
       .elements = countedElements(),
       .infer = inferArgMax,
       .evaluate = evaluateArgMax,
       .stopsGradient = true},
      {.name = "CumSum",
       .firstOpset = 11,
       .lastOpset = kLastOpset,
       .inputs = {{"x"}, {.name = "axis", .known = true}},
       .outputs = {{"y"}},
       .elements = countedElements(),
       .infer = inferCumSum,
       .evaluate = evaluateCumSum,
       .differentiate = differentiateCumSum},
  };
  return operators;
}

} // namespace pdc
