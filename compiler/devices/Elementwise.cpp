#include "compiler/devices/UnitReader.h"

#include <algorithm>

namespace pdc {

namespace {

/// Zero in, zero out: these may run over the padding of blocked layouts, which must stay zero.
bool keepsZero(std::string_view op) {
  static constexpr std::string_view kept[] = {
      "Abs",         "Add",           "Ceil", "Floor", "HardSwish", "HardSwishGrad",
      "LeakyRelu",   "LeakyReluGrad", "Mul",  "Neg",   "Relu",      "ReluGrad",
      "SigmoidGrad", "Sqrt",          "Sub",  "Sum",   "Tanh",      "TanhGrad"};
  return std::find(std::begin(kept), std::end(kept), op) != std::end(kept);
}

bool isScalarConstant(const UnitReader &reader, const UnitNode &node, size_t input) {
  const Tensor *constant = reader.constant(node, input);
  return constant && constant->data.size() == 1;
}

/// Whether the chain may run over padding.
bool keepsPadding(const UnitReader &reader) {
  return std::all_of(reader.nodes.begin(), reader.nodes.end(), [&](const UnitNode *node) {
    if (!keepsZero(node->op))
      return false;
    for (size_t i = 0; i < node->inputs.size(); ++i)
      if (reader.constant(*node, i) && node->op != "Mul")
        return false;
    return true;
  });
}

/// The layout of the first image that arrives blocked; the others are brought to it.
std::string chainLayout(const UnitReader &reader) {
  for (size_t i = 0; i < reader.unit.operands.size(); ++i) {
    const auto &type = reader.unit.operands[i];
    std::string layout(reader.unit.layout(i));
    if (!type || layout.empty() || layout.find(':') != layout.npos)
      continue;
    bool padded = elementsInLayout(*type, layout) != type->elementCount();
    if (!padded || keepsPadding(reader))
      return layout;
  }
  return "";
}

/// Strides of an operand under the result's shape: 0 where it is repeated.
std::vector<int64_t> broadcastStrides(const std::vector<int64_t> &shape,
                                      const std::vector<int64_t> &to) {
  std::vector<int64_t> strides(to.size(), 0);
  int64_t stride = 1;
  for (size_t i = 0; i < shape.size(); ++i) {
    size_t from = shape.size() - 1 - i, at = to.size() - 1 - i;
    strides[at] = shape[from] == 1 ? 0 : stride;
    stride *= shape[from];
  }
  return strides;
}

KernelChoice chooseBroadcast(const UnitReader &reader) {
  const UnitNode &node = reader.node(0);
  static constexpr std::string_view known[] = {"Add", "Sub", "Mul", "Div",
                                               "Max", "Min", "Pow", "Sum"};
  if (reader.nodes.size() != 1 || node.inputs.size() != 2 ||
      std::find(std::begin(known), std::end(known), node.op) == std::end(known) ||
      node.outputs[0].element != ElementType::f32)
    reader.refuse("broadcasting has kernels for Add, Sub, Mul, Div, Max, Min and Pow of two f32 "
                  "tensors");
  const std::vector<int64_t> &shape = node.outputs[0].shape;
  KernelChoice choice;
  choice.kernel = "Broadcast";
  choice.fields = {{"operation", std::string(node.op == "Sum" ? "Add" : node.op)},
                   {"shape", shape}};
  const char *names[] = {"stridesA", "stridesB"};
  const char *values[] = {"valueA", "valueB"};
  for (size_t i = 0; i < 2; ++i) {
    choice.fields.set(names[i], broadcastStrides(reader.inputType(node, i).shape, shape));
    if (isScalarConstant(reader, node, i)) {
      choice.fields.set(values[i], reader.constant(node, i)->data[0]);
      choice.arguments.push_back(-1);
      choice.inputLayouts.push_back("");
    } else {
      addArgument(choice, reader, node, i);
    }
  }
  choice.outputLayouts = {""};
  return choice;
}

} // namespace

bool isUniform(const UnitReader &reader, const UnitNode &node) {
  for (size_t i = 0; i < node.inputs.size(); ++i)
    if (reader.hasInput(node, i) && !isScalarConstant(reader, node, i) &&
        reader.inputType(node, i).shape != node.outputs[0].shape)
      return false;
  return true;
}

/// A chain of equal shapes is one loop; its body is printed from the operators' expressions.
KernelChoice chooseElementwise(const UnitReader &reader) {
  for (const UnitNode *node : reader.nodes)
    if (!isUniform(reader, *node))
      return chooseBroadcast(reader);
  KernelChoice choice;
  choice.kernel = "Elementwise";
  std::string layout = chainLayout(reader);
  for (size_t i = 0; i < reader.unit.operands.size(); ++i) {
    bool there = reader.unit.operands[i].has_value();
    choice.arguments.push_back(there ? static_cast<int>(i) : -1);
    choice.inputLayouts.push_back(there ? layout : "");
    for (size_t r = 0; there && r < reader.unit.results.size(); ++r)
      if (bytesPerElement(reader.unit.operands[i]->element) ==
          bytesPerElement(reader.unit.type(reader.unit.results[r])->element))
        choice.inPlace.push_back({static_cast<int>(i), static_cast<int>(r)});
  }
  choice.outputLayouts.assign(reader.unit.results.size(), layout);
  return choice;
}

} // namespace pdc
