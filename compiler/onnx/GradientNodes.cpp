#include "compiler/onnx/GradientNodes.h"

#include "compiler/onnx/NodeAttributes.h"
#include "compiler/onnx/TrainingInfo.h"

namespace pdc {

static void checkDistinct(const onnx::NodeProto &node, const std::vector<std::string> &names) {
  std::set<std::string> seen;
  for (const std::string &name : names)
    if (!seen.insert(name).second)
      throw Error(describe(node) + ": attributes 'xs' and 'zs' name '" + name +
                  "' twice, expected each value once; take it out");
}

static void checkCounts(const onnx::NodeProto &node, size_t inputs, size_t outputs) {
  if (static_cast<size_t>(node.input_size()) != inputs)
    throw Error(describe(node) + ": expected an input for each of the " + std::to_string(inputs) +
                " values in xs and zs, found " + std::to_string(node.input_size()));
  if (static_cast<size_t>(node.output_size()) > outputs)
    throw Error(describe(node) + ": expected at most an output for each of the " +
                std::to_string(outputs) + " values in xs, found " +
                std::to_string(node.output_size()));
}

/// A node may ask for the gradient at other values than those that y is computed from.
static void checkPlaces(const onnx::NodeProto &node, const std::vector<std::string> &names) {
  for (int i = 0; i < node.input_size(); ++i)
    if (const std::string &name = names[static_cast<size_t>(i)]; name != node.input(i))
      throw Error(describe(node) + ": puts '" + node.input(i) + "' in the place of '" + name +
                  "'; pdc takes gradients at the values themselves");
}

DifferentiatedGraph readGradientNode(const onnx::NodeProto &node) {
  DifferentiatedGraph graph{namesOf(node, "xs"), ""};
  std::vector<std::string> names = graph.xs;
  for (const std::string &name : namesOf(node, "zs"))
    names.push_back(name);
  checkDistinct(node, names);
  const onnx::AttributeProto *y = attributeOf(node, "y");
  if (graph.xs.empty() || !y || y->s().empty())
    throw Error(describe(node) + ": attributes 'xs' and 'y' must name values");
  graph.y = y->s();
  checkCounts(node, names.size(), graph.xs.size());
  checkPlaces(node, names);
  return graph;
}

void connectGradients(std::vector<FlatNode> &nodes) {
  for (FlatNode &flat : nodes)
    if (onnx::NodeProto &node = flat.proto;
        node.domain() == trainingDomain && node.op_type() == "Gradient") {
      node.add_input(readGradientNode(node).y);
      node.clear_attribute();
    }
}

} // namespace pdc
