#include "compiler/operators/Composition.h"
#include "compiler/operators/Elementwise.h"
#include "compiler/operators/Rules.h"
#include "runtime/kernels/OutsideRows.h"

#include <algorithm>
#include <cmath>

namespace pdc {

static std::vector<int64_t> shapeOf(GradientBuilder &b, size_t input) {
  return b.type(b.input(input)).shape;
}

/// The gradient of input i from one of the broadcast output's shape.
static void give(GradientBuilder &b, size_t i, GradientValue gradient) {
  b.setInputGradient(i, reducedTo(b, gradient, shapeOf(b, i)));
}

static void differentiateAdd(GradientBuilder &b) {
  for (size_t i = 0; i < b.inputCount(); ++i)
    if (b.wants(i))
      give(b, i, b.outputGradient(0));
}

static void differentiateSub(GradientBuilder &b) {
  if (b.wants(0))
    give(b, 0, b.outputGradient(0));
  if (b.wants(1))
    give(b, 1, add(b, "Neg", {b.outputGradient(0)}));
}

/// The two gradients of a square are one.
static void differentiateMul(GradientBuilder &b) {
  if (b.input(0) == b.input(1) && b.wants(0)) {
    GradientValue two = b.constant(Tensor::scalar(b.type(b.output(0)).element, 2));
    give(b, 0, add(b, "Mul", {add(b, "Mul", {b.outputGradient(0), b.input(0)}), two}));
    return;
  }
  for (size_t i : {0, 1})
    if (b.wants(i))
      give(b, i, add(b, "Mul", {b.outputGradient(0), b.input(1 - i)}));
}

/// d(a/b)/da = 1/b; d(a/b)/db = -y/b.
static void differentiateDiv(GradientBuilder &b) {
  if (!b.wants(0) && !b.wants(1))
    return;
  GradientValue quotient = add(b, "Div", {b.outputGradient(0), b.input(1)});
  if (b.wants(0))
    give(b, 0, quotient);
  if (b.wants(1))
    give(b, 1, add(b, "Neg", {add(b, "Mul", {quotient, b.output(0)})}));
}

/// Y = A - B * q, whichever way q is rounded, and q is constant between jumps.
static void differentiateMod(GradientBuilder &b) {
  GradientValue dy = b.outputGradient(0);
  if (b.wants(0))
    give(b, 0, dy);
  if (!b.wants(1))
    return;
  GradientValue taken = add(b, "Div", {add(b, "Sub", {b.output(0), b.input(0)}), b.input(1)});
  give(b, 1, add(b, "Mul", {dy, taken}));
}

static void differentiatePow(GradientBuilder &b) {
  if (b.wants(0))
    give(b, 0, add(b, "PowGrad", {b.outputGradient(0), b.input(0), b.input(1)}));
  if (b.wants(1))
    give(b, 1, add(b, "PowExponentGrad", {b.outputGradient(0), b.input(0), b.output(0)}));
}

/// As loops have it, by the same name.
static double outsideRow(double index) {
  return static_cast<double>(runtime::outsideRow(toInteger(index)));
}

static NodeValue castTo(CompositionBuilder &b, NodeValue value, ElementType element) {
  if (b.type(value).element == element)
    return value;
  return add(b, "Cast", {value}, {{"to", onnxType(element)}});
}

/// A known exponent that needs no power. (Higher ones and roots stay powers, of which 16 bits would
/// not hold every value: passes/NarrowValues.cpp.)
static std::vector<NodeValue> knownPower(CompositionBuilder &b) {
  const Tensor *exponent = b.known(b.input(1));
  if (!exponent || exponent->data.size() != 1 || exponent->type.rank() > b.type(b.input(0)).rank())
    return {};
  const NodeValue x = b.input(0);
  const double power = exponent->data[0];
  if (power == 1)
    return {add(b, "Identity", {x})};
  if (power == 2)
    return {add(b, "Mul", {x, x})};
  return {};
}

/// The exponent may have a type of its own; whole numbers stay whole; a whole base is a
/// floating-point one meanwhile when the exponent is.
static std::vector<NodeValue> composePow(CompositionBuilder &b) {
  const ElementType base = b.type(b.input(0)).element, exponent = b.type(b.input(1)).element;
  if (!isFloatingPoint(base) && !isFloatingPoint(exponent))
    return {add(b, "WholePower", {b.input(0), castTo(b, b.input(1), base)})};
  if (base == exponent)
    return knownPower(b);
  const ElementType computed =
      !isFloatingPoint(base) && isFloatingPoint(exponent) ? exponent : base;
  NodeValue power =
      add(b, "Pow", {castTo(b, b.input(0), computed), castTo(b, b.input(1), computed)});
  return {castTo(b, power, base)};
}

/// Of whole numbers: loops over floating-point ones divide otherwise.
static std::vector<NodeValue> composeDiv(CompositionBuilder &b) {
  if (isFloatingPoint(b.type(b.input(0)).element))
    return {};
  return {add(b, "WholeQuotient", {b.input(0), b.input(1)})};
}

static std::vector<NodeValue> composeMod(CompositionBuilder &b) {
  if (isFloatingPoint(b.type(b.input(0)).element))
    return {};
  return {add(b, "WholeRemainder", {b.input(0), b.input(1)}, b.attributes())};
}

/// To the elements that it has, a value is itself.
static std::vector<NodeValue> composeCast(CompositionBuilder &b) {
  const bool isItself = b.attributes().integer("to", 0) == onnxType(b.type(b.input(0)).element);
  return isItself ? std::vector<NodeValue>{b.input(0)} : std::vector<NodeValue>();
}

std::span<const ComposedForm> arithmeticForms() {
  static const ComposedForm forms[] = {
      {"Cast", composeCast}, {"Div", composeDiv}, {"Mod", composeMod}, {"Pow", composePow}};
  return forms;
}

static void differentiateNeg(GradientBuilder &b) {
  if (b.wants(0))
    b.setInputGradient(0, add(b, "Neg", {b.outputGradient(0)}));
}

static void differentiateWhere(GradientBuilder &b) {
  GradientValue dy = b.outputGradient(0);
  if (!b.wants(1) && !b.wants(2))
    return;
  GradientValue zero = b.constant(Tensor::scalar(b.type(dy).element, 0));
  if (b.wants(1))
    give(b, 1, add(b, "Where", {b.input(0), dy, zero}));
  if (b.wants(2))
    give(b, 2, add(b, "Where", {b.input(0), zero, dy}));
}

/// Equal extremes share the gradient in equal parts. What is none has none, whatever arrives: a
/// product with 0 would make infinity no number.
static void differentiateExtreme(GradientBuilder &b) {
  ElementType element = b.type(b.output(0)).element;
  GradientValue one = b.constant(Tensor::scalar(element, 1));
  GradientValue zero = b.constant(Tensor::scalar(element, 0));
  std::vector<GradientValue> areTaken, counted;
  for (size_t i = 0; i < b.inputCount(); ++i) {
    areTaken.push_back(add(b, "Equal", {b.input(i), b.output(0)}));
    counted.push_back(add(b, "Where", {areTaken.back(), one, zero}));
  }
  GradientValue share = add(b, "Div", {b.outputGradient(0), add(b, "Sum", counted)});
  for (size_t i = 0; i < b.inputCount(); ++i)
    if (b.wants(i))
      give(b, i, add(b, "Where", {areTaken[i], share, zero}));
}

static void normaliseIsInf(ImportedNode &node, int) {
  for (const char *name : {"detect_positive", "detect_negative"})
    node.attributes.set(name, node.attributes.integer(name, 1));
}

static void normaliseMod(ImportedNode &node, int opset) {
  node.attributes.set("fmod", node.attributes.integer("fmod", 0));
}

static std::vector<ElementType> wholeElements() {
  return {ElementType::i64, ElementType::i32, ElementType::i8, ElementType::u8};
}

/// Of negative numbers the two's complement.
std::vector<ElementwiseRow> bitwiseRows() {
  const std::vector<Parameter> two = {{"A"}, {"B"}};
  auto row = [](std::string_view name, std::vector<Parameter> inputs, Expression expression) {
    return ElementwiseRow{.name = name,
                          .firstOpset = 18,
                          .inputs = std::move(inputs),
                          .expressions = {expression},
                          .elements = wholeElements(),
                          .stopsGradient = true};
  };
  return {
      row("BitwiseAnd", two, PDC_EXPRESSION(static_cast<int64_t>($0) & static_cast<int64_t>($1))),
      row("BitwiseOr", two, PDC_EXPRESSION(static_cast<int64_t>($0) | static_cast<int64_t>($1))),
      row("BitwiseXor", two, PDC_EXPRESSION(static_cast<int64_t>($0) ^ static_cast<int64_t>($1))),
      row("BitwiseNot", {{"X"}}, PDC_EXPRESSION(~static_cast<int64_t>($0))),
  };
}

std::vector<ElementwiseRow> arithmeticRows() {
  const std::vector<Parameter> two = {{"A"}, {"B"}};
  const std::vector<Parameter> many = {{"data", false, true}};
  return {
      {"Add", 7, two, {PDC_EXPRESSION($0 + $1)}, differentiateAdd},
      {"Sub", 7, two, {PDC_EXPRESSION($0 - $1)}, differentiateSub},
      {"Mul", 7, two, {PDC_EXPRESSION($0 * $1)}, differentiateMul},
      {"Div", 7, two, {PDC_EXPRESSION($0 / $1)}, differentiateDiv},
      // An exponent of another type is cast where shapes are inferred.
      {"Pow",
       7,
       two,
       {PDC_EXPRESSION(std::pow($0, $1))},
       differentiatePow,
       nullptr,
       ElementwiseResult::likeFirstAlone},
      {"Mod",
       10,
       two,
       {PDC_EXPRESSION(!$fmod && std::fmod($0, $1) != 0 && (std::fmod($0, $1) < 0) != ($1 < 0)
                           ? std::fmod($0, $1) + $1
                           : std::fmod($0, $1))},
       differentiateMod,
       normaliseMod},
      {"Sum", 7, many, {PDC_EXPRESSION($0 + $1)}, differentiateAdd},
      // What is neither less nor equal is NaN, and so is the sum.
      {"Min",
       7,
       many,
       {PDC_EXPRESSION($0 < $1    ? $0
                       : $0 >= $1 ? $1
                                  : $0 + $1)},
       differentiateExtreme},
      {"Max",
       7,
       many,
       {PDC_EXPRESSION($0 > $1    ? $0
                       : $0 <= $1 ? $1
                                  : $0 + $1)},
       differentiateExtreme},
      {"Neg", 7, {{"X"}}, {PDC_EXPRESSION(-$0)}, differentiateNeg},
      {"Where",
       9,
       {{"condition"}, {"X"}, {"Y"}},
       {PDC_EXPRESSION($0 ? $1 : $2)},
       differentiateWhere,
       nullptr,
       ElementwiseResult::likeSecond},
      // The scale of gradients of a loss whose labels weigh so much: none where all weigh nothing.
      {"ReciprocalOrZero", 0, {{"X"}}, {PDC_EXPRESSION($0 > 0 ? 1 / $0 : 0)}},
      // Exact as far as doubles count; loops over whole numbers have no other function.
      {"WholePower",
       0,
       two,
       {PDC_EXPRESSION(std::round(std::pow(static_cast<double>($0), static_cast<double>($1))))}},
      // Of data that divides by zero, ONNX says nothing: 0, where processors would stop.
      {"WholeQuotient",
       0,
       two,
       {PDC_EXPRESSION($1 == 0 ? 0
                               : std::trunc(static_cast<double>($0) / static_cast<double>($1)))}},
      {"WholeRemainder",
       0,
       two,
       {PDC_EXPRESSION(
           $1 == 0 ? 0
           : $fmod ? std::fmod(static_cast<double>($0), static_cast<double>($1))
                   : $0 - $1 * std::floor(static_cast<double>($0) / static_cast<double>($1)))}},
      // Where indices point to (IndexedRows.cpp): negative ones count from the end; the row of what
      // is outside is behind all rows.
      {"IndexFromStart", 0, {{"index"}, {"size"}}, {PDC_EXPRESSION($0 < 0 ? $0 + $1 : $0)}},
      {"RowInside",
       0,
       {{"index"}, {"size"}, {"row"}},
       {PDC_EXPRESSION($0 >= -$1 && $0 < $1 ? $2 : outsideRow($0))}},
      {"OutsideRow", 0, {{"index"}}, {PDC_EXPRESSION(outsideRow($0))}},
      {"PowGrad",
       0,
       {{"dY"}, {"X"}, {"exponent"}},
       {PDC_EXPRESSION($2 == 0 ? 0 : $0 * $2 * std::pow($1, $2 - 1))}},
      {"PowExponentGrad",
       0,
       {{"dY"}, {"X"}, {"Y"}},
       {PDC_EXPRESSION($1 > 0 ? $0 * $2 * std::log($1) : 0)}},
  };
}

std::vector<ElementwiseRow> comparisonRows() {
  const std::vector<Parameter> two = {{"A"}, {"B"}};
  auto row = [&](std::string_view name, int opset, std::vector<Parameter> inputs, Expression test) {
    return ElementwiseRow{name,    opset,   std::move(inputs),         {test},
                          nullptr, nullptr, ElementwiseResult::boolean};
  };
  return {
      row("Equal", 7, two, PDC_EXPRESSION($0 == $1)),
      row("Greater", 7, two, PDC_EXPRESSION($0 > $1)),
      row("Less", 7, two, PDC_EXPRESSION($0 < $1)),
      row("GreaterOrEqual", 12, two, PDC_EXPRESSION($0 >= $1)),
      row("LessOrEqual", 12, two, PDC_EXPRESSION($0 <= $1)),
      row("And", 7, two, PDC_EXPRESSION($0 && $1)),
      row("Or", 7, two, PDC_EXPRESSION($0 || $1)),
      row("Xor", 7, two, PDC_EXPRESSION(!$0 != !$1)),
      row("Not", 1, {{"X"}}, PDC_EXPRESSION(!$0)),
      row("IsNaN", 9, {{"X"}}, PDC_EXPRESSION(std::isnan($0))),
      {"IsInf",
       10,
       {{"X"}},
       {PDC_EXPRESSION(std::isinf($0) && ($0 > 0 ? $detect_positive : $detect_negative) != 0)},
       nullptr,
       normaliseIsInf,
       ElementwiseResult::boolean,
       floatElements()},
  };
}

} // namespace pdc
