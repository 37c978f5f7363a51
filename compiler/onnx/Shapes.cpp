#include "compiler/onnx/Shapes.h"

#include "compiler/onnx/ShapeWalk.h"

#include <algorithm>

namespace pdc {

namespace {

/// Goes as far as the node that makes `value`.
void walkTo(ShapeWalk &walk, const std::vector<const ModelNode *> &nodes,
            const std::string &value) {
  for (const ModelNode *node : nodes) {
    walk.add(*node);
    if (std::find(node->outputs.begin(), node->outputs.end(), value) != node->outputs.end())
      break;
  }
}

/// The operand whose rows become the rows of what the node makes, one by one; empty where there is
/// none.
std::string rowsBefore(ShapeWalk &walk, const ModelNode &node, const TensorType &result) {
  const Operator *rules = findOperator(node.op);
  const bool isProduct =
      node.op == "MatMul" || (node.op == "Gemm" && !node.attributes.integer("transA", 0));
  const bool isAlongRows =
      node.op == "Softmax" || node.op == "LogSoftmax" || node.op == "LayerNormalization";
  if (!isProduct && !isAlongRows && !(rules && rules->kind == OperatorClass::elementwise) &&
      node.op != "Dropout")
    return "";
  const size_t operands = isProduct || isAlongRows ? 1 : node.inputs.size();
  for (size_t i = 0; i < operands; ++i) {
    if (node.inputs[i].empty())
      continue;
    const TensorType &type = walk.typeOf(node.inputs[i]);
    if (type.rank() == 2 && type.shape[0] == result.shape[0])
      return node.inputs[i];
  }
  return "";
}

/// Whether dimension 0 of what the node reads counts samples, and no other does: it grows with
/// them. Where their number is fixed, no other of the `leading` dimensions may have their size.
bool hasSamplesFirst(const Model &model, const Binding &binding,
                     const std::vector<const ModelNode *> &nodes, const ModelNode &node,
                     const std::vector<int64_t> &shape, size_t leading) {
  if (shape[0] != binding.microbatchSize())
    return false;
  if (std::optional<Binding> another = binding.withAnotherSample())
    try {
      ShapeWalk walk(model, *another);
      for (auto before = nodes.begin(); *before != &node; ++before)
        walk.add(**before);
      std::vector<int64_t> grown = shape;
      ++grown[0];
      return walk.typeOf(node.inputs[0]).shape == grown;
    } catch (const Error &) {
      // Its nodes have numbers of their own that fix how many samples there are.
    }
  return std::count(shape.begin() + 1, shape.begin() + static_cast<std::ptrdiff_t>(leading),
                    shape[0]) == 0;
}

} // namespace

TensorType typeOfValue(const Model &model, const Binding &binding,
                       const std::vector<const ModelNode *> &nodes, const std::string &value) {
  ShapeWalk walk(model, binding);
  walkTo(walk, nodes, value);
  return walk.typeOf(value);
}

std::vector<int64_t> positionsOfRows(const Model &model, const Binding &binding,
                                     const std::vector<const ModelNode *> &nodes,
                                     const std::string &value) {
  ShapeWalk walk(model, binding);
  walkTo(walk, nodes, value);
  TensorType result = walk.typeOf(value);
  if (result.rank() != 2 || result.shape[0] == binding.microbatchSize())
    return {};
  std::string wanted = value;
  for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
    if ((*node)->outputs.empty() || (*node)->outputs[0] != wanted)
      continue;
    if ((*node)->op != "Reshape" && (*node)->op != "Flatten") {
      wanted = rowsBefore(walk, **node, result);
      continue;
    }
    const std::vector<int64_t> shape = walk.typeOf((*node)->inputs[0]).shape;
    int64_t rows = 1;
    size_t leading = 0;
    while (leading < shape.size() && rows != result.shape[0])
      rows *= shape[leading++];
    if (rows == result.shape[0] && leading > 0 &&
        hasSamplesFirst(model, binding, nodes, **node, shape, leading))
      return {shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(leading)};
    return {};
  }
  return {};
}

} // namespace pdc
