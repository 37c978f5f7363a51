#include "compiler/operators/Operator.h"

#include "compiler/operators/Families.h"
#include "compiler/operators/Rules.h"

#include <algorithm>

namespace pdc {

static std::vector<const Operator *> sortedOperators() {
  std::vector<const Operator *> result;
  for (auto family : {elementwiseOperators,
                      convolutionOperators,
                      poolingOperators,
                      normalisationOperators,
                      localResponseOperators,
                      rotationOperators,
                      dropoutOperators,
                      randomOperators,
                      recurrentCellOperators,
                      matrixOperators,
                      viewOperators,
                      movementOperators,
                      padOperators,
                      selectionOperators,
                      constantOperators,
                      reductionOperators,
                      softmaxOperators,
                      crossEntropyOperators,
                      lossOperators,
                      softmaxAttentionOperators,
                      layerNormalizationOperators,
                      groupNormalizationOperators,
                      splitOperators,
                      alongAxisOperators,
                      topOperators,
                      gradientOperators,
                      composedOperators})
    for (const Operator &op : family())
      result.push_back(&op);
  std::sort(result.begin(), result.end(),
            [](const Operator *a, const Operator *b) { return a->name < b->name; });
  return result;
}

std::span<const Operator *const> allOperators() {
  static const std::vector<const Operator *> operators = sortedOperators();
  return operators;
}

const Operator *findOperator(std::string_view name) {
  auto all = allOperators();
  auto it = std::lower_bound(all.begin(), all.end(), name,
                             [](const Operator *op, std::string_view n) { return op->name < n; });
  return it != all.end() && (*it)->name == name ? *it : nullptr;
}

const TensorType &NodeView::input(size_t i) const {
  if (!hasInput(i))
    refuse(*this, "input " + std::to_string(i) + " is missing");
  return *inputs[i];
}

static Cost defaultCost(const NodeView &node, std::span<const TensorType> outputs) {
  Cost cost;
  for (const TensorType *type : node.inputs)
    cost.bytes += type ? type->bytes() : 0;
  for (const TensorType &type : outputs)
    cost.bytes += type.bytes();
  if (!outputs.empty())
    cost.flops = outputs[0].elementCount();
  return cost;
}

Cost costOf(const Operator &op, const NodeView &node, std::span<const TensorType> outputs) {
  if (op.kind == OperatorClass::view || op.kind == OperatorClass::constant)
    return {};
  return op.cost ? op.cost(node, outputs) : defaultCost(node, outputs);
}

void normaliseNode(ImportedNode &node, int opset) {
  const Operator *op = findOperator(node.op);
  if (!op || !op->lastOpset)
    refuse(node, opset,
           "this operator is not supported; compiler/operators/README.md lists those that are: "
           "write it with these where the model is exported");
  if (opset < op->firstOpset || opset > op->lastOpset)
    refuse(node, opset,
           "supported from opset " + std::to_string(op->firstOpset) + " to " +
               std::to_string(op->lastOpset) + "; export the model again with one of these");
  if (op->normalise)
    op->normalise(node, opset);
}

static void checkOperands(const Operator &op, const NodeView &node) {
  bool variadic = !op.inputs.empty() && op.inputs.back().variadic;
  if (node.inputs.size() > op.inputs.size() && !variadic)
    refuse(node, "has " + std::to_string(node.inputs.size()) + " inputs, expected at most " +
                     std::to_string(op.inputs.size()));
  for (size_t i = 0; i < op.inputs.size(); ++i)
    if (!op.inputs[i].optional && !node.hasInput(i))
      refuse(node,
             "input " + std::to_string(i) + " (" + std::string(op.inputs[i].name) + ") is missing");
  if (op.elements.empty() || !node.hasInput(0))
    return;
  if (std::find(op.elements.begin(), op.elements.end(), node.inputs[0]->element) ==
      op.elements.end())
    refuse(node, "element type " + std::string(toString(node.inputs[0]->element)) +
                     " of input 0 is not supported");
}

static void checkOutputs(const Operator &op, const NodeView &node) {
  bool variadic = !op.outputs.empty() && op.outputs.back().variadic;
  if (node.outputCount > op.outputs.size() && !variadic)
    refuse(node, "has " + std::to_string(node.outputCount) + " outputs, expected at most " +
                     std::to_string(op.outputs.size()));
}

std::vector<TensorType> inferTypes(const Operator &op, const NodeView &node) try {
  checkOperands(op, node);
  checkOutputs(op, node);
  std::vector<TensorType> types = op.infer(node);
  for (const TensorType &type : types)
    type.elementCount(); // refuses shapes that cannot be counted
  if (types.size() > node.outputCount)
    types.resize(node.outputCount);
  return types;
} catch (const Error &error) {
  std::string text = error.what();
  if (text.starts_with("node '"))
    throw;
  refuse(node, text);
}

std::vector<Tensor> evaluateNode(const Operator &op, const NodeView &node,
                                 std::span<const Tensor *const> inputs) try {
  NodeView known = node;
  known.constants = inputs;
  inferTypes(op, known);
  if (!op.evaluate)
    refuse(node, "has no value at compile time");
  return op.evaluate(known, inputs);
} catch (const Error &error) {
  std::string text = error.what();
  if (text.starts_with("node '"))
    throw;
  refuse(node, text);
}

} // namespace pdc
