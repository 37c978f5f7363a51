#include "compiler/operators/Composition.h"
#include "compiler/operators/Rules.h"

/// Reductions that are sums or maxima of a function of the elements.
namespace pdc {

/// Another reduction with the node's axes and attributes.
static NodeValue reduced(CompositionBuilder &b, std::string_view op, NodeValue x,
                         const Attributes &attributes) {
  std::vector<NodeValue> inputs = {x};
  if (NodeValue axes = b.input(1))
    inputs.push_back(axes);
  return add(b, op, inputs, attributes);
}

static NodeValue sumOf(CompositionBuilder &b, NodeValue x) {
  return reduced(b, "ReduceSum", x, b.attributes());
}

static std::vector<NodeValue> composeL1(CompositionBuilder &b) {
  return {sumOf(b, add(b, "Abs", {b.input(0)}))};
}

static std::vector<NodeValue> composeSumSquare(CompositionBuilder &b) {
  return {sumOf(b, add(b, "Mul", {b.input(0), b.input(0)}))};
}

static std::vector<NodeValue> composeL2(CompositionBuilder &b) {
  return {rootOf(b, composeSumSquare(b)[0])};
}

static std::vector<NodeValue> composeLogSum(CompositionBuilder &b) {
  return {add(b, "Log", {sumOf(b, b.input(0))})};
}

/// m + log(sum(exp(x - m))) with the maximum m, so that no power overflows.
static std::vector<NodeValue> composeLogSumExp(CompositionBuilder &b) {
  Attributes kept = b.attributes();
  kept.set("keepdims", int64_t(1));
  NodeValue most = reduced(b, "ReduceMax", b.input(0), kept);
  NodeValue sum = sumOf(b, add(b, "Exp", {add(b, "Sub", {b.input(0), most})}));
  NodeValue log = add(b, "Log", {sum});
  return {add(b, "Add", {log, reshaped(b, most, b.type(sum).shape)})};
}

static std::vector<NodeValue> composeMin(CompositionBuilder &b) {
  // Negated, the least integer is itself.
  if (std::vector<NodeValue> least = composeIntegerMin(b); !least.empty())
    return least;
  NodeValue most = reduced(b, "ReduceMax", add(b, "Neg", {b.input(0)}), b.attributes());
  return {add(b, "Neg", {most})};
}

std::span<const ComposedOperator> reductionForms() {
  auto form = [](std::string_view name, Compose compose) {
    return ComposedOperator{
        {.name = name,
         .firstOpset = 1,
         .lastOpset = kLastOpset,
         .inputs = {{"data"}, {.name = "axes", .optional = true, .known = true}},
         .outputs = {{"reduced"}},
         .normalise = normaliseReduction},
        compose};
  };
  static const ComposedOperator operators[] = {
      form("ReduceL1", composeL1),         form("ReduceL2", composeL2),
      form("ReduceLogSum", composeLogSum), form("ReduceLogSumExp", composeLogSumExp),
      form("ReduceMin", composeMin),       form("ReduceSumSquare", composeSumSquare)};
  return operators;
}

} // namespace pdc
