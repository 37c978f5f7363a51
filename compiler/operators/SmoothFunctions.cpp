#include "compiler/operators/Elementwise.h"
#include "compiler/operators/Rules.h"

#include <cmath>

/// Functions of one number with their derivatives, and PRelu.
namespace pdc {

namespace {

/// The name of a gradient's operator, as a template argument.
template <size_t N> struct OperatorName {
  char text[N];
  constexpr OperatorName(const char (&name)[N]) { std::copy_n(name, N, text); }
};

template <OperatorName gradient> void differentiateFromInput(GradientBuilder &b) {
  differentiateBy(b, gradient.text, true);
}

struct Function {
  ElementwiseRow forward, backward;
};

using Normalise = void (*)(ImportedNode &, int);

/// `derivative` is $0, the arriving gradient, times the derivative at $1.
template <OperatorName gradient>
Function function(std::string_view name, int opset, Expression value, Expression derivative,
                  Normalise normalise = nullptr) {
  return {{name,
           opset,
           {{"X"}},
           {value},
           differentiateFromInput<gradient>,
           normalise,
           ElementwiseResult::likeFirst,
           floatElements()},
          {gradient.text, 0, {{"dY"}, {"X"}}, {derivative}}};
}

template <int64_t numerator, int64_t denominator>
void normaliseAlpha(ImportedNode &node, int opset) {
  double otherwise = static_cast<double>(numerator) / denominator;
  node.attributes.set("alpha", node.attributes.number("alpha", otherwise));
  if (node.op == "Celu" && node.attributes.number("alpha", 1) == 0)
    refuse(node, opset, "attribute 'alpha' is 0, expected another number");
}

void normaliseSelu(ImportedNode &node, int) {
  node.attributes.set("alpha", node.attributes.number("alpha", 1.67326319217681884765625));
  node.attributes.set("gamma", node.attributes.number("gamma", 1.05070102214813232421875));
}

/// The approximation is an operator of its own, with ONNX Runtime's name.
void normaliseGelu(ImportedNode &node, int opset) {
  std::string approximation = node.attributes.string("approximate", "none");
  if (approximation != "none" && approximation != "tanh")
    refuse(node, opset,
           "approximate '" + approximation + "' is unknown; supported are 'none' and 'tanh'");
  node.op = approximation == "tanh" ? "FastGelu" : "Gelu";
  node.attributes.erase("approximate");
}

std::vector<Function> activations() {
  return {
      function<"EluGrad">("Elu", 6, PDC_EXPRESSION($0 > 0 ? $0 : $alpha * std::expm1($0)),
                          PDC_EXPRESSION($1 > 0 ? $0 : $0 * $alpha * std::exp($1)),
                          normaliseAlpha<1, 1>),
      function<"SeluGrad">(
          "Selu", 6, PDC_EXPRESSION($gamma * ($0 > 0 ? $0 : $alpha * std::expm1($0))),
          PDC_EXPRESSION($gamma * ($1 > 0 ? $0 : $0 * $alpha * std::exp($1))), normaliseSelu),
      function<"CeluGrad">(
          "Celu", 12, PDC_EXPRESSION($0 > 0 ? $0 : $alpha * std::expm1($0 / $alpha)),
          PDC_EXPRESSION($1 > 0 ? $0 : $0 * std::exp($1 / $alpha)), normaliseAlpha<1, 1>),
      function<"ThresholdedReluGrad">("ThresholdedRelu", 10, PDC_EXPRESSION($0 <= $alpha ? 0 : $0),
                                      PDC_EXPRESSION($1 <= $alpha ? 0 : $0), normaliseAlpha<1, 1>),
      function<"SoftplusGrad">(
          "Softplus", 1, PDC_EXPRESSION(($0 > 0 ? $0 : 0) + std::log1p(std::exp(-std::abs($0)))),
          PDC_EXPRESSION($0 / (1 + std::exp(-$1)))),
      function<"SoftsignGrad">("Softsign", 1, PDC_EXPRESSION($0 / (1 + std::abs($0))),
                               PDC_EXPRESSION($0 / ((1 + std::abs($1)) * (1 + std::abs($1))))),
      function<"MishGrad">(
          "Mish", 18,
          PDC_EXPRESSION($0 * std::tanh(($0 > 0 ? $0 : 0) + std::log1p(std::exp(-std::abs($0))))),
          PDC_EXPRESSION(
              $0 *
              (std::tanh(($1 > 0 ? $1 : 0) + std::log1p(std::exp(-std::abs($1)))) +
               $1 / (1 + std::exp(-$1)) *
                   (1 - std::tanh(($1 > 0 ? $1 : 0) + std::log1p(std::exp(-std::abs($1)))) *
                            std::tanh(($1 > 0 ? $1 : 0) + std::log1p(std::exp(-std::abs($1)))))))),
      // 1 / sqrt(2) and 1 / sqrt(2 pi)
      function<"GeluGrad">("Gelu", 20, PDC_EXPRESSION($0 * (1 + std::erf($0 * 0.70710678119f)) / 2),
                           PDC_EXPRESSION($0 * ((1 + std::erf($1 * 0.70710678119f)) / 2 +
                                                $1 * 0.39894228040f * std::exp(-$1 * $1 / 2))),
                           normaliseGelu),
      // One exponential and one reciprocal for both: what is left of 1 beside the sigmoid is its
      // product with the exponential where that is small, and does not overflow.
      function<"SwishGrad">(
          "Swish", 24, PDC_EXPRESSION($0 * (1 / (1 + std::exp(-$0)))),
          PDC_EXPRESSION($0 * (1 / (1 + std::exp(-$1))) *
                         (1 + $1 * ($1 > 0 ? std::exp(-$1) * (1 / (1 + std::exp(-$1)))
                                           : 1 - 1 / (1 + std::exp(-$1)))))),
      // sqrt(2 / pi), and three times 0.044715
      function<"FastGeluGrad">(
          "FastGelu", 0,
          PDC_EXPRESSION($0 * (1 + std::tanh(0.79788456080f * ($0 + 0.044715f * $0 * $0 * $0))) /
                         2),
          PDC_EXPRESSION(
              $0 * (1 + std::tanh(0.79788456080f * ($1 + 0.044715f * $1 * $1 * $1))) / 2 *
              (1 + $1 * (1 - std::tanh(0.79788456080f * ($1 + 0.044715f * $1 * $1 * $1))) *
                       0.79788456080f * (1 + 0.134145f * $1 * $1)))),
  };
}

std::vector<Function> trigonometry() {
  return {
      function<"SinGrad">("Sin", 7, PDC_EXPRESSION(std::sin($0)),
                          PDC_EXPRESSION($0 * std::cos($1))),
      function<"CosGrad">("Cos", 7, PDC_EXPRESSION(std::cos($0)),
                          PDC_EXPRESSION(-$0 * std::sin($1))),
      function<"TanGrad">("Tan", 7, PDC_EXPRESSION(std::tan($0)),
                          PDC_EXPRESSION($0 / (std::cos($1) * std::cos($1)))),
      function<"AsinGrad">("Asin", 7, PDC_EXPRESSION(std::asin($0)),
                           PDC_EXPRESSION($0 / std::sqrt((1 - $1) * (1 + $1)))),
      function<"AcosGrad">("Acos", 7, PDC_EXPRESSION(std::acos($0)),
                           PDC_EXPRESSION(-$0 / std::sqrt((1 - $1) * (1 + $1)))),
      function<"AtanGrad">("Atan", 7, PDC_EXPRESSION(std::atan($0)),
                           PDC_EXPRESSION($0 / (1 + $1 * $1))),
      function<"SinhGrad">("Sinh", 9, PDC_EXPRESSION(std::sinh($0)),
                           PDC_EXPRESSION($0 * std::cosh($1))),
      function<"CoshGrad">("Cosh", 9, PDC_EXPRESSION(std::cosh($0)),
                           PDC_EXPRESSION($0 * std::sinh($1))),
      function<"AsinhGrad">("Asinh", 9, PDC_EXPRESSION(std::asinh($0)),
                            PDC_EXPRESSION($0 / std::sqrt(1 + $1 * $1))),
      function<"AcoshGrad">("Acosh", 9, PDC_EXPRESSION(std::acosh($0)),
                            PDC_EXPRESSION($0 / std::sqrt(($1 - 1) * ($1 + 1)))),
      function<"AtanhGrad">("Atanh", 9, PDC_EXPRESSION(std::atanh($0)),
                            PDC_EXPRESSION($0 / ((1 - $1) * (1 + $1)))),
  };
}

/// The slope broadcasts to x.
void differentiatePRelu(GradientBuilder &b) {
  GradientValue dy = b.outputGradient(0), x = b.input(0), slope = b.input(1);
  if (b.wants(0))
    b.setInputGradient(0, add(b, "PReluGrad", {dy, x, slope}));
  if (b.wants(1))
    b.setInputGradient(1, reducedTo(b, add(b, "PReluSlopeGrad", {dy, x}), b.type(slope).shape));
}

} // namespace

std::vector<ElementwiseRow> smoothFunctionRows() {
  std::vector<ElementwiseRow> rows = {
      {"PRelu",
       7,
       {{"X"}, {"slope"}},
       {PDC_EXPRESSION($0 > 0 ? $0 : $0 * $1)},
       differentiatePRelu,
       nullptr,
       ElementwiseResult::likeFirst,
       floatElements()},
      {"PReluGrad", 0, {{"dY"}, {"X"}, {"slope"}}, {PDC_EXPRESSION($1 > 0 ? $0 : $0 * $2)}},
      {"PReluSlopeGrad", 0, {{"dY"}, {"X"}}, {PDC_EXPRESSION($1 < 0 ? $0 * $1 : 0)}},
  };
  for (auto family : {activations, trigonometry})
    for (Function &function : family()) {
      rows.push_back(std::move(function.forward));
      rows.push_back(std::move(function.backward));
    }
  return rows;
}

} // namespace pdc
