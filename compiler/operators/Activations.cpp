#include "compiler/operators/Elementwise.h"
#include "compiler/operators/Rules.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace pdc {

void differentiateBy(GradientBuilder &b, std::string_view op, bool fromInput) {
  if (!b.wants(0))
    return;
  GradientValue saved = fromInput ? b.input(0) : b.output(0);
  b.setInputGradient(0, add(b, op, {b.outputGradient(0), saved}, b.attributes()));
}

static void differentiateRelu(GradientBuilder &b) { differentiateBy(b, "ReluGrad", false); }
static void differentiateLeakyRelu(GradientBuilder &b) {
  differentiateBy(b, "LeakyReluGrad", true);
}
static void differentiateSigmoid(GradientBuilder &b) { differentiateBy(b, "SigmoidGrad", false); }
static void differentiateTanh(GradientBuilder &b) { differentiateBy(b, "TanhGrad", false); }
static void differentiateExp(GradientBuilder &b) { differentiateBy(b, "Mul", false); }
static void differentiateLog(GradientBuilder &b) { differentiateBy(b, "Div", true); }
static void differentiateSqrt(GradientBuilder &b) { differentiateBy(b, "SqrtGrad", false); }
static void differentiateAbs(GradientBuilder &b) { differentiateBy(b, "AbsGrad", true); }
static void differentiateErf(GradientBuilder &b) { differentiateBy(b, "ErfGrad", true); }
static void differentiateReciprocal(GradientBuilder &b) {
  differentiateBy(b, "ReciprocalGrad", false);
}
static void differentiateHardSigmoid(GradientBuilder &b) {
  differentiateBy(b, "HardSigmoidGrad", false);
}
static void differentiateHardSwish(GradientBuilder &b) {
  differentiateBy(b, "HardSwishGrad", true);
}

static void differentiateClip(GradientBuilder &b) {
  if (b.wants(0))
    b.setInputGradient(
        0, add(b, "ClipGrad", {b.outputGradient(0), b.input(0), b.input(1), b.input(2)}));
}

/// Of AtLeast and AtMost.
static void differentiateBound(GradientBuilder &b, std::string_view gradient) {
  if (b.wants(0))
    b.setInputGradient(0, add(b, gradient, {b.outputGradient(0), b.input(0), b.input(1)}));
}
static void differentiateAtLeast(GradientBuilder &b) { differentiateBound(b, "AtLeastGrad"); }
static void differentiateAtMost(GradientBuilder &b) { differentiateBound(b, "AtMostGrad"); }
static void differentiateLogAtLeast(GradientBuilder &b) { differentiateBound(b, "LogAtLeastGrad"); }

static void normaliseLeakyRelu(ImportedNode &node, int) {
  node.attributes.set("alpha", node.attributes.number("alpha", 0.01));
}

static void normaliseHardSigmoid(ImportedNode &node, int) {
  node.attributes.set("alpha", node.attributes.number("alpha", 0.2));
  node.attributes.set("beta", node.attributes.number("beta", 0.5));
}

/// Before opset 11 the bounds were attributes, of operators on floating point alone. One that is
/// left out depends on the type of the elements.
static void normaliseClip(ImportedNode &node, int) {
  bool isWhole = true;
  for (size_t i = 0; i < 2; ++i) {
    const char *name = i == 0 ? "min" : "max";
    if (node.attributes.has(name))
      setInput(node, i + 1,
               node.addConstant(Tensor::scalar(ElementType::f32, node.attributes.number(name, 0))));
    node.attributes.erase(name);
    isWhole = isWhole && node.inputs.size() > i + 1 && !node.inputs[i + 1].empty();
  }
  if (!isWhole)
    node.op = "OneSidedClip";
}

/// Forward activations.
static std::vector<ElementwiseRow> forwardRows() {
  const std::vector<Parameter> one = {{"X"}};
  auto row = [&](std::string_view name, int opset, Expression expression,
                 void (*differentiate)(GradientBuilder &),
                 void (*normalise)(ImportedNode &, int) = nullptr) {
    return ElementwiseRow{name,
                          opset,
                          one,
                          {expression},
                          differentiate,
                          normalise,
                          ElementwiseResult::likeFirst,
                          floatElements()};
  };
  return {
      // What is not a number stays so, and a loss that it reaches is refused.
      row("Relu", 7, PDC_EXPRESSION($0 < 0 ? 0 : $0), differentiateRelu),
      row("LeakyRelu", 6, PDC_EXPRESSION($0 > 0 ? $0 : $alpha * $0), differentiateLeakyRelu,
          normaliseLeakyRelu),
      row("Sigmoid", 7, PDC_EXPRESSION(1 / (1 + std::exp(-$0))), differentiateSigmoid),
      row("HardSigmoid", 6,
          PDC_EXPRESSION(1 < $alpha * $0 + $beta   ? 1
                         : $alpha * $0 + $beta < 0 ? 0
                                                   : $alpha * $0 + $beta),
          differentiateHardSigmoid, normaliseHardSigmoid),
      row("HardSwish", 14,
          PDC_EXPRESSION($0 <= -3  ? 0
                         : $0 >= 3 ? $0
                                   : $0 * ($0 + 3) / 6),
          differentiateHardSwish),
      row("Tanh", 7, PDC_EXPRESSION(std::tanh($0)), differentiateTanh),
      row("Exp", 7, PDC_EXPRESSION(std::exp($0)), differentiateExp),
      row("Log", 7, PDC_EXPRESSION(std::log($0)), differentiateLog),
      row("Sqrt", 7, PDC_EXPRESSION(std::sqrt($0)), differentiateSqrt),
      row("Erf", 9, PDC_EXPRESSION(std::erf($0)), differentiateErf),
      row("Reciprocal", 7, PDC_EXPRESSION(1 / $0), differentiateReciprocal),
  };
}

/// Gradient kernels of the above.
static std::vector<ElementwiseRow> gradientRows() {
  const std::vector<Parameter> fromX = {{"dY"}, {"X"}}, fromY = {{"dY"}, {"Y"}};
  return {
      {"ReluGrad", 0, fromY, {PDC_EXPRESSION($1 > 0 ? $0 : 0)}},
      {"LeakyReluGrad", 0, fromX, {PDC_EXPRESSION($1 > 0 ? $0 : $alpha * $0)}},
      {"SigmoidGrad", 0, fromY, {PDC_EXPRESSION($0 * $1 * (1 - $1))}},
      {"HardSigmoidGrad", 0, fromY, {PDC_EXPRESSION($1 > 0 && $1 < 1 ? $0 * $alpha : 0)}},
      {"HardSwishGrad",
       0,
       fromX,
       {PDC_EXPRESSION($1 <= -3  ? 0
                       : $1 >= 3 ? $0
                                 : $0 * (2 * $1 + 3) / 6)}},
      {"TanhGrad", 0, fromY, {PDC_EXPRESSION($0 * (1 - $1 * $1))}},
      {"SqrtGrad", 0, fromY, {PDC_EXPRESSION($0 / (2 * $1))}},
      {"AbsGrad",
       0,
       fromX,
       {PDC_EXPRESSION($1 > 0   ? $0
                       : $1 < 0 ? -$0
                                : 0)}},
      // 2 / sqrt(pi)
      {"ErfGrad", 0, fromX, {PDC_EXPRESSION($0 * 1.1283791671f * std::exp(-$1 * $1))}},
      {"ReciprocalGrad", 0, fromY, {PDC_EXPRESSION(-$0 * $1 * $1)}},
      // At both bounds none, as PyTorch's relu6 and hardtanh have it.
      {"ClipGrad",
       0,
       {{"dY"}, {"X"}, {"min"}, {"max"}},
       {PDC_EXPRESSION($1 > $2 && $1 < $3 ? $0 : 0)}},
      // As PyTorch's clamp_min and clamp_max (2.15).
      {"AtLeastGrad", 0, {{"dY"}, {"X"}, {"min"}}, {PDC_EXPRESSION($1 > $2 ? $0 : 0)}},
      {"AtMostGrad", 0, {{"dY"}, {"X"}, {"max"}}, {PDC_EXPRESSION($1 < $2 ? $0 : 0)}},
      {"LogAtLeastGrad",
       0,
       {{"dY"}, {"X"}, {"min"}},
       {PDC_EXPRESSION(std::log($1) > $2 ? $0 / $1 : 0)}},
  };
}

std::vector<ElementwiseRow> activationRows() {
  std::vector<ElementwiseRow> rows = {
      {"Abs", 7, {{"X"}}, {PDC_EXPRESSION(std::abs($0))}, differentiateAbs},
      {.name = "Floor",
       .firstOpset = 7,
       .inputs = {{"X"}},
       .expressions = {PDC_EXPRESSION(std::floor($0))},
       .stopsGradient = true},
      {.name = "Ceil",
       .firstOpset = 7,
       .inputs = {{"X"}},
       .expressions = {PDC_EXPRESSION(std::ceil($0))},
       .stopsGradient = true},
      // Halves go to the even neighbour.
      {.name = "Round",
       .firstOpset = 11,
       .inputs = {{"X"}},
       .expressions = {PDC_EXPRESSION(std::nearbyint($0))},
       .elements = floatElements(),
       .stopsGradient = true},
      {.name = "Sign",
       .firstOpset = 9,
       .inputs = {{"input"}},
       .expressions = {PDC_EXPRESSION($0 > 0   ? 1
                                      : $0 < 0 ? -1
                                               : $0)},
       .stopsGradient = true},
      {"Clip",
       7,
       {{"input"}, {.name = "min", .optional = true}, {.name = "max", .optional = true}},
       {PDC_EXPRESSION(std::min(std::max($0, $1), $2))},
       differentiateClip,
       normaliseClip},
      // Clip by one number.
      {"AtLeast",
       0,
       {{"input"}, {"min"}},
       {PDC_EXPRESSION(std::max($0, $1))},
       differentiateAtLeast},
      {"AtMost", 0, {{"input"}, {"max"}}, {PDC_EXPRESSION(std::min($0, $1))}, differentiateAtMost},
      // Where the logarithm is that of 0 its gradient is 0, by which 0 is not divided.
      {"LogAtLeast",
       0,
       {{"input"}, {"min"}},
       {PDC_EXPRESSION(std::max(std::log($0), $1))},
       differentiateLogAtLeast},
  };
  for (auto family : {forwardRows, gradientRows})
    for (ElementwiseRow &row : family())
      rows.push_back(row);
  return rows;
}

} // namespace pdc
