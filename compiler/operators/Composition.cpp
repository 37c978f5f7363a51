#include "compiler/operators/Composition.h"

#include "compiler/operators/Families.h"
#include "compiler/operators/Rules.h"

#include <algorithm>
#include <deque>
#include <numeric>

namespace pdc {

namespace {

/// Nodes that leave nothing behind but the types of their results, and the values of those whose
/// operands are all known.
class Rehearsal : public CompositionBuilder {
public:
  explicit Rehearsal(const NodeView &composed) : composed(composed) {
    for (size_t i = 0; i < composed.inputs.size(); ++i)
      inputs.push_back(composed.hasInput(i) ? add(*composed.inputs[i], composed.constant(i))
                                            : NodeValue());
  }

  const Attributes &attributes() const override { return composed.attributes; }
  size_t inputCount() const override { return inputs.size(); }
  NodeValue input(size_t i) const override { return i < inputs.size() ? inputs[i] : NodeValue(); }
  TensorType type(NodeValue value) const override { return at(value).type; }
  const Tensor *known(NodeValue value) const override {
    return at(value).known ? &*at(value).known : nullptr;
  }
  std::string describe() const override {
    return "node '" + std::string(composed.name) + "' (" + std::string(composed.op) + ")";
  }
  NodeValue constant(Tensor value) override { return add(value.type, &value); }

  std::vector<NodeValue> node(std::string_view op, std::vector<NodeValue> operands,
                              Attributes attributes, size_t outputs) override {
    const Operator *rules = findOperator(op);
    if (!rules)
      refuse("is composed of operator " + std::string(op) + ", which pdc does not know");
    std::vector<const TensorType *> types;
    std::vector<const Tensor *> values;
    // No type depends on random numbers, and drawing them takes as long as the tensor is large.
    bool allKnown = op != "UniformRandom";
    for (NodeValue operand : operands) {
      types.push_back(operand ? &at(operand).type : nullptr);
      values.push_back(operand ? known(operand) : nullptr);
      allKnown = allKnown && (!operand || values.back());
    }
    NodeView view{op, composed.name, attributes, types, values, outputs};
    std::vector<NodeValue> results;
    if (allKnown)
      for (const Tensor &value : evaluateNode(*rules, view, values))
        results.push_back(add(value.type, &value));
    else
      for (const TensorType &result : inferTypes(*rules, view))
        results.push_back(add(result, nullptr));
    return results;
  }

  struct Value {
    TensorType type;
    std::optional<Tensor> known;
  };
  static const Value &at(NodeValue value) { return *static_cast<const Value *>(value.handle); }

private:
  NodeValue add(const TensorType &type, const Tensor *known) {
    values.push_back({type, known ? std::optional(*known) : std::nullopt});
    return {&values.back()};
  }

  const NodeView &composed;
  std::deque<Value> values;
  std::vector<NodeValue> inputs;
};

Compose compositionOf(const NodeView &node) {
  if (Compose compose = findComposition(node.op))
    return compose;
  refuse(node, "is composed of nothing");
}

std::vector<TensorType> composedTypes(const NodeView &node) {
  Rehearsal rehearsal(node);
  std::vector<TensorType> types;
  for (NodeValue output : compositionOf(node)(rehearsal))
    types.push_back(rehearsal.type(output));
  return types;
}

struct Compositions {
  std::vector<Operator> operators;
  std::vector<ComposedForm> parts;

  Compositions() {
    for (auto family : {lossForms, padForms, poolingForms, matrixForms, arithmeticForms,
                        alongAxisForms, integerReductionForms, swishForms, groupForms,
                        repetitionForms})
      parts.insert(parts.end(), family().begin(), family().end());
    for (auto family : {reductionForms, rearrangements, indexingForms, normalisationForms,
                        recurrentForms, einsumForms, shortForms, convTransposeForms, resizeForms,
                        triangleForms, attentionForms, topForms, trainingForms, gridForms,
                        lpPoolForms, unpoolForms, randomForms, bagForms, blockForms, fourierForms,
                        maskedForms, selectedForms, cumulativeForms, causalForms, sampleStepForms,
                        linearAttentionForms})
      for (const ComposedOperator &composed : family()) {
        operators.push_back(composed.op);
        operators.back().infer = composedTypes;
        if (!composed.op.evaluate)
          operators.back().evaluate = evaluateComposed;
        parts.push_back({composed.op.name, composed.compose});
      }
  }
};

const Compositions &compositions() {
  static const Compositions all;
  return all;
}

} // namespace

std::vector<Tensor> evaluateComposed(const NodeView &node, std::span<const Tensor *const> inputs) {
  NodeView known = node;
  known.constants = inputs;
  Rehearsal rehearsal(known);
  std::vector<Tensor> values;
  for (NodeValue output : compositionOf(node)(rehearsal))
    values.push_back(*rehearsal.known(output));
  return values;
}

std::span<const Operator> composedOperators() { return compositions().operators; }

Compose findComposition(std::string_view op) {
  const auto &parts = compositions().parts;
  auto found = std::find_if(parts.begin(), parts.end(),
                            [&](const ComposedForm &part) { return part.op == op; });
  return found == parts.end() ? nullptr : found->compose;
}

void CompositionBuilder::refuse(const std::string &what) const {
  throw Error(describe() + ": " + what);
}

NodeValue add(CompositionBuilder &builder, std::string_view op, std::vector<NodeValue> inputs,
              Attributes attributes) {
  return builder.node(op, std::move(inputs), std::move(attributes)).front();
}

NodeValue reshaped(CompositionBuilder &builder, NodeValue value,
                   const std::vector<int64_t> &shape) {
  if (builder.type(value).shape == shape)
    return value;
  return add(builder, "Reshape", {value, builder.constant(Tensor::vector(shape))});
}

NodeValue transposed(CompositionBuilder &builder, NodeValue value,
                     const std::vector<int64_t> &order) {
  if (std::is_sorted(order.begin(), order.end()))
    return value;
  return add(builder, "Transpose", {value}, {{"perm", order}});
}

int64_t axisFromStart(const CompositionBuilder &b, int64_t axis) {
  const TensorType x = b.type(b.input(0));
  const int64_t found = axis < 0 ? axis + x.rank() : axis;
  if (found < 0 || found >= x.rank())
    b.refuse("axis " + std::to_string(axis) + " is outside input " + x.toString());
  return found;
}

std::vector<int64_t> namedAxes(const CompositionBuilder &b) {
  std::vector<int64_t> axes = b.attributes().integers("axes");
  if (axes.empty()) {
    axes.resize(static_cast<size_t>(b.type(b.input(0)).rank()));
    std::iota(axes.begin(), axes.end(), 0);
  }
  for (int64_t &axis : axes) {
    axis = axisFromStart(b, axis);
    if (std::ranges::count(axes, axis) > 1)
      b.refuse("attribute axes names dimension " + std::to_string(axis) + " twice");
  }
  return axes;
}

Tensor integersOf(std::vector<int64_t> shape, const std::vector<int64_t> &values) {
  Tensor tensor = Tensor::vector(values);
  tensor.type.shape = std::move(shape);
  return tensor;
}

NodeValue rootOf(CompositionBuilder &b, NodeValue square) {
  const ElementType element = b.type(square).element;
  NodeValue zero = number(b, element, 0), isZero = add(b, "Equal", {square, zero});
  NodeValue safe = add(b, "Where", {isZero, number(b, element, 1), square});
  return add(b, "Where", {isZero, zero, add(b, "Sqrt", {safe})});
}

NodeValue number(CompositionBuilder &builder, ElementType element, double value) {
  return builder.constant(Tensor::scalar(element, value));
}

std::vector<int64_t> knownIntegers(const CompositionBuilder &builder, size_t input) {
  if (!builder.input(input))
    builder.refuse("input " + std::to_string(input) + " is missing");
  if (const Tensor *value = builder.known(builder.input(input))) {
    if (isFloatingPoint(value->type.element))
      builder.refuse("input " + std::to_string(input) + " is " + value->type.toString() +
                     ", expected integers");
    return value->toIntegers();
  }
  builder.refuse("input " + std::to_string(input) +
                 " must be known at compile time, but it depends on data; export with fixed "
                 "shapes");
}

} // namespace pdc
