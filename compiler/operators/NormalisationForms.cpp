#include "compiler/operators/Composition.h"
#include "compiler/operators/Rules.h"

#include <algorithm>

/// Normalisations that are means, differences and quotients.
namespace pdc {

static NodeValue meanOver(CompositionBuilder &b, NodeValue x, const std::vector<int64_t> &axes) {
  return add(b, "ReduceMean", {x, b.constant(Tensor::vector(axes))}, {{"keepdims", int64_t(1)}});
}

/// Whether a value is known to be this number throughout.
static bool isFilledWith(CompositionBuilder &b, NodeValue value, double number) {
  const Tensor *known = b.known(value);
  return known && std::ranges::all_of(known->data, [&](double found) { return found == number; });
}

/// A group per channel. Exporters scale by ones and shift by zeros where a layer does not.
static std::vector<NodeValue> composeInstance(CompositionBuilder &b) {
  TensorType x = b.type(b.input(0));
  if (x.rank() < 3)
    b.refuse("input " + x.toString() + ", expected batch, channels and pixels");
  Attributes attributes = {{"epsilon", b.attributes().number("epsilon", 1e-5)},
                           {"num_groups", x.shape[1]}};
  std::vector<NodeValue> inputs = {b.input(0), b.input(1), b.input(2)};
  for (size_t i : {1, 2})
    if (b.type(inputs[i]).shape == std::vector{x.shape[1]} && isFilledWith(b, inputs[i], 2.0 - i))
      inputs[i] = {};
  while (!inputs.back())
    inputs.pop_back();
  return {b.node("GroupNormalization", inputs, attributes, 3)[0]};
}

/// Opset 18 scales groups, opset 21 channels; how many numbers there are says which. A group is
/// then a channel of more pixels.
static std::vector<NodeValue> composeGroupScales(CompositionBuilder &b) {
  TensorType x = b.type(b.input(0));
  int64_t groups = b.attributes().integer("num_groups", 0);
  if (b.inputCount() < 2 || !b.input(1) || x.rank() < 2 || groups < 1 || groups == x.shape[1] ||
      x.shape[1] % groups != 0 || b.type(b.input(1)).shape != std::vector{groups})
    return {};
  std::vector<NodeValue> inputs = {
      reshaped(b, b.input(0), {x.shape[0], groups, product(x.shape, 1) / groups}), b.input(1)};
  if (b.inputCount() > 2)
    inputs.push_back(b.input(2));
  std::vector<NodeValue> results = b.node("GroupNormalization", inputs, b.attributes(), 3);
  results[0] = reshaped(b, results[0], x.shape);
  return results;
}

static std::vector<NodeValue> composeLp(CompositionBuilder &b) {
  int64_t axis = axisFromStart(b, b.attributes().integer("axis", -1));
  int64_t p = b.attributes().integer("p", 2);
  if (p != 1 && p != 2)
    b.refuse("p is " + std::to_string(p) + ", expected 1 or 2");
  NodeValue x = b.input(0), one = number(b, b.type(x).element, 1);
  NodeValue norm = add(b, p == 1 ? "ReduceL1" : "ReduceL2",
                       {x, b.constant(Tensor::vector({axis}))}, {{"keepdims", int64_t(1)}});
  // What is zero stays zero.
  NodeValue isZero = add(b, "Equal", {norm, number(b, b.type(x).element, 0)});
  return {add(b, "Div", {x, add(b, "Where", {isZero, one, norm})})};
}

/// The deviation, not the variance, is kept from zero.
static std::vector<NodeValue> composeMeanVariance(CompositionBuilder &b) {
  std::vector<int64_t> axes = b.attributes().integers("axes", {0, 2, 3});
  NodeValue x = b.input(0);
  NodeValue centred = add(b, "Sub", {x, meanOver(b, x, axes)});
  NodeValue deviation = add(b, "Sqrt", {meanOver(b, add(b, "Mul", {centred, centred}), axes)});
  NodeValue shifted = add(b, "Add", {deviation, number(b, b.type(x).element, 1e-9)});
  return {add(b, "Div", {centred, shifted})};
}

std::span<const ComposedOperator> normalisationForms() {
  static const ComposedOperator operators[] = {
      {{.name = "InstanceNormalization",
        .firstOpset = 6,
        .lastOpset = kLastOpset,
        .inputs = {{"input"}, {"scale"}, {"B"}},
        .outputs = {{"output"}},
        .elements = floatElements()},
       composeInstance},
      {{.name = "LpNormalization",
        .firstOpset = 1,
        .lastOpset = kLastOpset,
        .inputs = {{"input"}},
        .outputs = {{"output"}},
        .elements = floatElements()},
       composeLp},
      {{.name = "MeanVarianceNormalization",
        .firstOpset = 9,
        .lastOpset = kLastOpset,
        .inputs = {{"X"}},
        .outputs = {{"Y"}},
        .elements = floatElements()},
       composeMeanVariance},
  };
  return operators;
}

std::span<const ComposedForm> groupForms() {
  static const ComposedForm forms[] = {{"GroupNormalization", composeGroupScales}};
  return forms;
}

} // namespace pdc
