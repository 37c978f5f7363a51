#pragma once

#include "compiler/operators/Operator.h"

namespace pdc {

/// The attributes that expressions may name, bound once per node.
struct Coefficients {
  double alpha, beta, fmod, momentum, dampening, weight_decay, nesterov, beta1, beta2, epsilon,
      decoupled, gamma, detect_positive, detect_negative, first_step, lr_decay, post_decay,
      scaled_epsilon;
  explicit Coefficients(const Attributes &attributes);
};

/// Text for generated loops and a function for the reference, from one spelling: PDC_EXPRESSION.
struct Expression {
  std::string_view text;
  double (*function)(const double *operands, const Coefficients &coefficients);
};

/// `$0` .. `$6` are operands, `$name` attributes: names that are legal in the reference as they are
/// and that the printer replaces in the text. Integer literals keep the text free of a type.
#define PDC_EXPRESSION(...)                                                                        \
  ::pdc::Expression {                                                                              \
#__VA_ARGS__,                                                                                  \
        [](const double *operands, const ::pdc::Coefficients &coefficients) -> double {            \
          [[maybe_unused]] const double $0 = operands[0], $1 = operands[1], $2 = operands[2],      \
                                        $3 = operands[3], $4 = operands[4], $5 = operands[5],      \
                                        $6 = operands[6];                                          \
          [[maybe_unused]] const auto &[$alpha, $beta, $fmod, $momentum, $dampening,               \
                                        $weight_decay, $nesterov, $beta1, $beta2, $epsilon,        \
                                        $decoupled, $gamma, $detect_positive,                      \
                                        $detect_negative, $first_step, $lr_decay, $post_decay,     \
                                        $scaled_epsilon] = coefficients;                           \
          return __VA_ARGS__;                                                                      \
        }   \
  }

/// The operands have one type (or f32 and 16 bits, which give 16 bits), the first of likeSecond
/// aside and all but the first of likeFirstAlone.
enum class ElementwiseResult : uint8_t { likeFirst, likeFirstAlone, likeSecond, boolean };

/// One elementwise operator: everything known of it in a row.
struct ElementwiseRow {
  std::string_view name;
  int firstOpset = 0; ///< 0: only the compiler makes it
  std::vector<Parameter> inputs;
  std::vector<Expression> expressions; ///< one per output
  void (*differentiate)(GradientBuilder &builder) = nullptr;
  void (*normalise)(ImportedNode &node, int opset) = nullptr;
  ElementwiseResult result = ElementwiseResult::likeFirst;
  std::vector<ElementType> elements = {};
  std::vector<Parameter> outputs = {{"Y"}};
  /// Constant between jumps: no gradient passes.
  bool stopsGradient = false;
};

/// The gradient node reads the arriving gradient and the forward input (`fromInput`) or output,
/// with the forward node's attributes. Reading the output lets the input be dropped.
void differentiateBy(GradientBuilder &builder, std::string_view op, bool fromInput);

std::vector<ElementwiseRow> arithmeticRows();
std::vector<ElementwiseRow> bitwiseRows();
std::vector<ElementwiseRow> comparisonRows();
std::vector<ElementwiseRow> activationRows();
std::vector<ElementwiseRow> smoothFunctionRows();
std::vector<ElementwiseRow> optimizerRows();
std::vector<ElementwiseRow> lossGradientRows();

} // namespace pdc
