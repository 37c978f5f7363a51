#include "compiler/operators/Elementwise.h"
#include "compiler/operators/Families.h"
#include "compiler/operators/Rules.h"

#include <array>
#include <cmath>
#include <map>

namespace pdc {

static double coefficient(const Attributes &attributes, std::string_view name) {
  const Attribute *attribute = attributes.find(name);
  if (!attribute)
    return 0;
  if (const int64_t *integer = std::get_if<int64_t>(attribute))
    return static_cast<double>(*integer);
  if (const double *number = std::get_if<double>(attribute))
    return *number;
  throw Error("attribute '" + std::string(name) + "' is not a number");
}

Coefficients::Coefficients(const Attributes &a)
    : alpha(coefficient(a, "alpha")), beta(coefficient(a, "beta")), fmod(coefficient(a, "fmod")),
      momentum(coefficient(a, "momentum")), dampening(coefficient(a, "dampening")),
      weight_decay(coefficient(a, "weight_decay")), nesterov(coefficient(a, "nesterov")),
      beta1(coefficient(a, "beta1")), beta2(coefficient(a, "beta2")),
      epsilon(coefficient(a, "epsilon")), decoupled(coefficient(a, "decoupled")),
      gamma(coefficient(a, "gamma")), detect_positive(coefficient(a, "detect_positive")),
      detect_negative(coefficient(a, "detect_negative")),
      first_step(a.has("first_step") ? coefficient(a, "first_step") : 1),
      lr_decay(coefficient(a, "lr_decay")), post_decay(coefficient(a, "post_decay")),
      scaled_epsilon(coefficient(a, "scaled_epsilon")) {}

static const std::map<std::string_view, ElementwiseRow> &rows() {
  static const auto all = [] {
    std::map<std::string_view, ElementwiseRow> result;
    for (auto family : {arithmeticRows, bitwiseRows, comparisonRows, activationRows,
                        smoothFunctionRows, optimizerRows, lossGradientRows})
      for (ElementwiseRow &row : family())
        result.emplace(row.name, row);
    return result;
  }();
  return all;
}

/// f32 and 16 bits may meet, as --precision has them: loops compute in f32 and store 16 bits.
static bool mayMeet(ElementType a, ElementType b) {
  auto isShort = [](ElementType e) { return e == ElementType::f16 || e == ElementType::bf16; };
  return a == b || (a == ElementType::f32 && isShort(b)) || (b == ElementType::f32 && isShort(a));
}

/// That of the operands from `first` on; the shorter one where two meet.
static ElementType sharedElement(const NodeView &node, size_t first) {
  ElementType shared = node.input(first).element;
  for (size_t i = first + 1; i < node.inputs.size(); ++i)
    if (shared == ElementType::f32 && mayMeet(shared, node.input(i).element))
      shared = node.input(i).element;
  return shared;
}

static ElementType resultElement(const ElementwiseRow &row, const NodeView &node) {
  switch (row.result) {
  case ElementwiseResult::boolean:
    return ElementType::boolean;
  case ElementwiseResult::likeSecond:
    return sharedElement(node, 1);
  case ElementwiseResult::likeFirst:
    return sharedElement(node, 0);
  case ElementwiseResult::likeFirstAlone:
    break;
  }
  return node.input(0).element;
}

static void checkElements(const ElementwiseRow &row, const NodeView &node) {
  if (row.result == ElementwiseResult::likeFirstAlone)
    return;
  size_t first = row.result == ElementwiseResult::likeSecond ? 1 : 0;
  for (size_t i = first; i < node.inputs.size(); ++i)
    if (!mayMeet(node.input(i).element, sharedElement(node, first)))
      refuse(node, "element types " + std::string(toString(node.input(first).element)) + " and " +
                       std::string(toString(node.input(i).element)) + " differ");
}

static std::vector<TensorType> inferElementwise(const NodeView &node) {
  const ElementwiseRow &row = rows().at(node.op);
  checkElements(row, node);
  if (node.op == "Clip")
    for (size_t i : {1, 2})
      if (node.input(i).elementCount() != 1 || node.input(i).rank() > node.input(0).rank())
        refuse(node,
               std::string(i == 1 ? "min " : "max ") + node.input(i).toString() +
                   ", expected one number; use the operators Max and Min where bounds differ");
  std::vector<int64_t> shape = node.input(0).shape;
  for (size_t i = 1; i < node.inputs.size(); ++i)
    shape = broadcastShape(node, shape, node.input(i).shape);
  // Sum, Min and Max have one row for two operands and fold the others in.
  return std::vector<TensorType>(row.expressions.size(), {resultElement(row, node), shape});
}

/// One output: walks the broadcast shape and applies the row's function to each element.
static Tensor apply(const Expression &expression, const Coefficients &coefficients,
                    const TensorType &type, std::span<const Tensor *const> inputs) {
  Tensor result = Tensor::zeros(type);
  std::vector<std::vector<int64_t>> strides;
  for (const Tensor *input : inputs)
    strides.push_back(broadcastStrides(input->type.shape, type.shape));
  std::array<double, 7> operands = {};
  std::vector<int64_t> index(type.rank());
  for (double &element : result.data) {
    for (size_t i = 0; i < inputs.size(); ++i)
      operands[i] = inputs[i]->data[offsetOf(index, strides[i])];
    element = toElement(type.element, expression.function(operands.data(), coefficients));
    advance(index, type.shape);
  }
  return result;
}

static void checkDivision(const NodeView &node, std::span<const Tensor *const> inputs) {
  if ((node.op != "Div" && node.op != "Mod") || isFloatingPoint(node.input(0).element))
    return;
  for (double divisor : inputs[1]->data)
    if (divisor == 0)
      refuse(node, "integer division by zero");
}

static std::vector<Tensor> evaluateElementwise(const NodeView &node,
                                               std::span<const Tensor *const> inputs) {
  const ElementwiseRow &row = rows().at(node.op);
  checkDivision(node, inputs);
  Coefficients coefficients(node.attributes);
  std::vector<TensorType> types = inferElementwise(node);
  std::vector<Tensor> results;
  if (!row.inputs.back().variadic) {
    for (size_t i = 0; i < types.size(); ++i)
      results.push_back(apply(row.expressions[i], coefficients, types[i], inputs));
    return results;
  }
  results.push_back(*inputs[0]);
  for (size_t i = 1; i < inputs.size(); ++i) {
    TensorType type{types[0].element,
                    broadcastShape(node, results[0].type.shape, inputs[i]->type.shape)};
    const Tensor *pair[] = {&results[0], inputs[i]};
    results[0] = apply(row.expressions[0], coefficients, type, pair);
  }
  return results;
}

static Operator toOperator(const ElementwiseRow &row) {
  Operator op;
  op.name = row.name;
  op.firstOpset = row.firstOpset;
  op.lastOpset = row.firstOpset ? kLastOpset : 0;
  op.kind = OperatorClass::elementwise;
  op.inputs = row.inputs;
  op.outputs = row.outputs;
  op.elements = row.elements;
  op.normalise = row.normalise;
  op.infer = inferElementwise;
  op.evaluate = evaluateElementwise;
  op.differentiate = row.differentiate;
  op.stopsGradient = row.stopsGradient || row.result == ElementwiseResult::boolean;
  for (const Expression &expression : row.expressions)
    op.expressions.push_back(expression.text);
  return op;
}

std::span<const Operator> elementwiseOperators() {
  static const std::vector<Operator> operators = [] {
    std::vector<Operator> result;
    for (const auto &[name, row] : rows())
      result.push_back(toOperator(row));
    return result;
  }();
  return operators;
}

} // namespace pdc
