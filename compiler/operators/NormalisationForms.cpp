#include "compiler/operators/Composition.h"
#include "compiler/operators/Rules.h"

#include <numeric>

/// Normalisations that are means, differences and quotients.
namespace pdc {

static NodeValue meanOver(CompositionBuilder &b, NodeValue x, const std::vector<int64_t> &axes) {
  return add(b, "ReduceMean", {x, b.constant(Tensor::vector(axes))}, {{"keepdims", int64_t(1)}});
}

static std::vector<int64_t> axesFrom(int64_t first, int64_t rank) {
  std::vector<int64_t> axes(static_cast<size_t>(std::max<int64_t>(0, rank - first)));
  std::iota(axes.begin(), axes.end(), first);
  return axes;
}

/// (x - mean) / sqrt(variance + epsilon) over the axes.
static NodeValue standardised(CompositionBuilder &b, NodeValue x, const std::vector<int64_t> &axes,
                              double epsilon) {
  NodeValue centred = add(b, "Sub", {x, meanOver(b, x, axes)});
  NodeValue variance = meanOver(b, add(b, "Mul", {centred, centred}), axes);
  NodeValue shifted = add(b, "Add", {variance, number(b, b.type(x).element, epsilon)});
  return add(b, "Div", {centred, add(b, "Sqrt", {shifted})});
}

/// x * scale + shift, each one number per element of dimension 1.
static NodeValue scaled(CompositionBuilder &b, NodeValue x) {
  std::vector<int64_t> channels(b.type(x).shape.size(), 1);
  channels.at(1) = b.type(x).shape[1];
  NodeValue product = add(b, "Mul", {x, reshaped(b, b.input(1), channels)});
  return add(b, "Add", {product, reshaped(b, b.input(2), channels)});
}

static void checkChannels(CompositionBuilder &b, int64_t expected) {
  for (size_t i : {1, 2})
    if (b.type(b.input(i)).shape != std::vector<int64_t>{expected})
      b.refuse("input " + std::to_string(i) + " is " + b.type(b.input(i)).toString() +
               ", expected " + std::to_string(expected) + " numbers");
}

static std::vector<NodeValue> composeInstance(CompositionBuilder &b) {
  TensorType x = b.type(b.input(0));
  if (x.rank() < 3)
    b.refuse("input " + x.toString() + ", expected batch, channels and pixels");
  checkChannels(b, x.shape[1]);
  double epsilon = b.attributes().number("epsilon", 1e-5);
  return {scaled(b, standardised(b, b.input(0), axesFrom(2, x.rank()), epsilon))};
}

/// Opset 18 scales groups, opset 21 channels; how many numbers there are says which.
static std::vector<NodeValue> composeGroup(CompositionBuilder &b) {
  TensorType x = b.type(b.input(0));
  int64_t groups = b.attributes().integer("num_groups", 0);
  if (x.rank() < 2 || groups < 1 || x.shape[1] % groups != 0)
    b.refuse("input " + x.toString() + " has no channels in " + std::to_string(groups) + " groups");
  bool scalesGroups = b.type(b.input(1)).elementCount() == groups && groups != x.shape[1];
  checkChannels(b, scalesGroups ? groups : x.shape[1]);
  std::vector<int64_t> grouped = {x.shape[0], groups, product(x.shape, 1) / groups};
  NodeValue y = standardised(b, reshaped(b, b.input(0), grouped), {2},
                             b.attributes().number("epsilon", 1e-5));
  if (scalesGroups)
    return {reshaped(b, scaled(b, y), x.shape)};
  return {scaled(b, reshaped(b, y, x.shape))};
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
      {{.name = "GroupNormalization",
        .firstOpset = 18,
        .lastOpset = kLastOpset,
        .inputs = {{"X"}, {"scale"}, {"bias"}},
        .outputs = {{"Y"}},
        .elements = floatElements()},
       composeGroup},
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

} // namespace pdc
