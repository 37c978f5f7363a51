#include "compiler/onnx/Branches.h"

#include "compiler/Error.h"
#include "compiler/onnx/NodeAttributes.h"

#include <set>

namespace pdc {

bool hasBranches(const onnx::NodeProto &node) {
  const onnx::AttributeProto *then = attributeOf(node, "then_branch");
  const onnx::AttributeProto *otherwise = attributeOf(node, "else_branch");
  return node.op_type() == "If" && node.input_size() == 1 && then && then->has_g() && otherwise &&
         otherwise->has_g();
}

bool hasBody(const onnx::NodeProto &node) {
  const onnx::AttributeProto *body = attributeOf(node, "body");
  return node.op_type() == "Loop" && body && body->has_g();
}

/// What a graph names itself.
static std::set<std::string> namesOfGraph(const onnx::GraphProto &graph) {
  std::set<std::string> names;
  for (const onnx::ValueInfoProto &input : graph.input())
    names.insert(input.name());
  for (const onnx::TensorProto &initializer : graph.initializer())
    names.insert(initializer.name());
  for (const onnx::NodeProto &node : graph.node())
    names.insert(node.output().begin(), node.output().end());
  return names;
}

void renameCaptured(onnx::NodeProto &node, const Renaming &rename) {
  for (onnx::AttributeProto &attribute : *node.mutable_attribute()) {
    if (!attribute.has_g())
      continue;
    onnx::GraphProto &graph = *attribute.mutable_g();
    const std::set<std::string> own = namesOfGraph(graph);
    const Renaming outside = [&](const std::string &name) {
      return name.empty() || own.contains(name) ? name : rename(name);
    };
    for (onnx::NodeProto &inner : *graph.mutable_node()) {
      for (std::string &input : *inner.mutable_input())
        input = outside(input);
      renameCaptured(inner, outside);
    }
    for (onnx::ValueInfoProto &output : *graph.mutable_output())
      output.set_name(outside(output.name()));
  }
}

void giveAttributes(onnx::NodeProto &node,
                    const std::map<std::string, onnx::AttributeProto> &given) {
  google::protobuf::RepeatedPtrField<onnx::AttributeProto> kept;
  for (onnx::AttributeProto &attribute : *node.mutable_attribute()) {
    auto found = given.find(attribute.ref_attr_name());
    if (!attribute.ref_attr_name().empty() && found == given.end())
      continue;
    const std::string name = attribute.name();
    onnx::AttributeProto &copy = *kept.Add();
    copy = attribute.ref_attr_name().empty() ? std::move(attribute) : found->second;
    copy.set_name(name);
    if (copy.has_g())
      for (onnx::NodeProto &inner : *copy.mutable_g()->mutable_node())
        giveAttributes(inner, given);
  }
  node.mutable_attribute()->Swap(&kept);
}

static onnx::NodeProto constantOf(onnx::TensorProto &tensor) {
  onnx::NodeProto constant;
  constant.set_op_type("Constant");
  constant.set_name(tensor.name());
  constant.add_output(tensor.name());
  onnx::AttributeProto &value = *constant.add_attribute();
  value.set_name("value");
  value.set_type(onnx::AttributeProto::TENSOR);
  *value.mutable_t() = std::move(tensor);
  return constant;
}

Branch takeBranch(onnx::GraphProto &branch, const Renaming &rename) {
  if (branch.sparse_initializer_size())
    throw Error("sparse initializer '" + branch.sparse_initializer(0).values().name() +
                "' is not supported; export it dense");
  std::map<std::string, std::string> own;
  for (const std::string &name : namesOfGraph(branch))
    if (!name.empty())
      own[name] = rename(name);
  const Renaming renamed = [&](const std::string &name) {
    auto found = own.find(name);
    return found == own.end() ? name : found->second;
  };
  Branch taken;
  for (onnx::TensorProto &tensor : *branch.mutable_initializer()) {
    tensor.set_name(renamed(tensor.name()));
    taken.initializers.push_back(constantOf(tensor));
  }
  for (onnx::NodeProto &node : *branch.mutable_node()) {
    for (std::string &input : *node.mutable_input())
      input = renamed(input);
    for (std::string &output : *node.mutable_output())
      output = renamed(output);
    renameCaptured(node, renamed);
    taken.nodes.push_back(std::move(node));
  }
  for (const onnx::ValueInfoProto &output : branch.output())
    taken.outputs.push_back(renamed(output.name()));
  return taken;
}

} // namespace pdc
