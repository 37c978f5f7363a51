#include "compiler/operators/Families.h"
#include "compiler/operators/Rules.h"

/// ONNX's Gradient of training graphs: its first inputs are what is differentiated by, its last
/// one, which the importer adds, the value that is differentiated. infer-shapes puts the backward
/// nodes of the graph in its place, so that it has neither a gradient nor kernels of its own.
namespace pdc {

namespace {

std::vector<TensorType> inferGradients(const NodeView &node) {
  if (node.outputCount >= node.inputs.size())
    refuse(node, "has " + std::to_string(node.outputCount) + " outputs and " +
                     std::to_string(node.inputs.size()) +
                     " inputs, expected an input for each output and the value that is "
                     "differentiated");
  std::vector<TensorType> types;
  for (size_t i = 0; i < node.outputCount; ++i)
    types.push_back(node.input(i));
  return types;
}

} // namespace

std::span<const Operator> gradientOperators() {
  static const Operator operators[] = {{.name = "ai.onnx.preview.training.Gradient",
                                        .firstOpset = 1,
                                        .lastOpset = 1,
                                        .inputs = {{"inputs", false, true}},
                                        .outputs = {{"outputs", false, true}},
                                        .infer = inferGradients}};
  return operators;
}

} // namespace pdc
