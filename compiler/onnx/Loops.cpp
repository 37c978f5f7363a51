#include "compiler/onnx/Loops.h"

#include "compiler/onnx/NodeAttributes.h"

namespace pdc {

using NewNames = std::map<std::string, std::string>;

static const std::string &named(const NewNames &names, const std::string &name) {
  auto found = names.find(name);
  return found == names.end() ? name : found->second;
}

static FlatNode copied(const FlatNode &node, const NewNames &names, const std::string &suffix) {
  FlatNode copy = node;
  for (std::string &input : *copy.proto.mutable_input())
    input = named(names, input);
  for (std::string &output : *copy.proto.mutable_output())
    output = named(names, output);
  if (!copy.proto.name().empty())
    copy.proto.set_name(copy.proto.name() + suffix);
  if (!node.body)
    return copy;
  auto body = std::make_shared<LoopBody>(LoopBody{node.body->inputs, node.body->outputs, {}});
  for (std::string &output : body->outputs)
    output = named(names, output);
  for (const FlatNode &inner : node.body->nodes)
    body->nodes.push_back(copied(inner, names, suffix));
  copy.body = std::move(body);
  return copy;
}

LoopUnrolling::LoopUnrolling(const FlatNode &loop, Names &values) : loop(loop), values(values) {
  const auto &inputs = loop.proto.input();
  const auto count = static_cast<int>(loop.body->inputs.size());
  carried.assign(inputs.begin() + 2, inputs.begin() + count);
  stacks.resize(loop.body->outputs.size() - 1 - carried.size());
}

FlatNode LoopUnrolling::node(const char *op, std::string suffix) const {
  FlatNode made{{}, 11, loop.stages};
  made.proto.set_op_type(op);
  made.proto.set_name(loop.proto.name() + std::move(suffix));
  return made;
}

/// The iteration's number, and that it takes place.
void LoopUnrolling::addConstants(std::vector<FlatNode> &nodes) {
  const onnx::TensorProto::DataType elements[] = {onnx::TensorProto::INT64,
                                                  onnx::TensorProto::BOOL};
  for (int i = 0; i < 2; ++i) {
    FlatNode &constant = nodes.emplace_back(node("Constant", "/" + std::to_string(iterations)));
    onnx::AttributeProto &value = *constant.proto.add_attribute();
    value.set_name("value");
    value.set_type(onnx::AttributeProto::TENSOR);
    value.mutable_t()->set_data_type(elements[i]);
    if (i == 0)
      value.mutable_t()->add_int64_data(iterations);
    else
      value.mutable_t()->add_int32_data(1);
    constant.proto.add_output(values.fresh(loop.body->inputs[static_cast<size_t>(i)]));
  }
}

std::vector<FlatNode> LoopUnrolling::next() {
  const LoopBody &body = *loop.body;
  std::vector<FlatNode> nodes;
  addConstants(nodes);
  NewNames names;
  for (size_t i = 0; i < body.inputs.size(); ++i)
    names[body.inputs[i]] = i < 2 ? nodes[i].proto.output(0) : carried[i - 2];
  for (const FlatNode &inner : body.nodes)
    for (const std::string &output : inner.proto.output())
      if (!output.empty())
        names[output] = values.fresh(output);
  for (const FlatNode &inner : body.nodes)
    nodes.push_back(copied(inner, names, "/" + std::to_string(iterations)));
  condition_ = named(names, body.outputs[0]);
  for (size_t i = 0; i < carried.size(); ++i)
    carried[i] = named(names, body.outputs[1 + i]);
  for (size_t i = 0; i < stacks.size(); ++i)
    stacks[i].push_back(named(names, body.outputs[1 + carried.size() + i]));
  ++iterations;
  return nodes;
}

std::vector<FlatNode> LoopUnrolling::finish() {
  std::vector<FlatNode> nodes;
  for (int i = 0; i < loop.proto.output_size(); ++i) {
    const std::string &output = loop.proto.output(i);
    const auto place = static_cast<size_t>(i);
    if (output.empty())
      continue;
    FlatNode last = node(place < carried.size() ? "Identity" : "Concat", "");
    last.proto.add_output(output);
    if (place < carried.size()) {
      last.proto.add_input(carried[place]);
    } else if (iterations == 0) {
      throw Error("its output '" + output + "' has no iteration to stack");
    } else {
      for (const std::string &value : stacks[place - carried.size()]) {
        FlatNode &row = nodes.emplace_back(node("Unsqueeze", ""));
        row.proto.add_input(value);
        row.proto.add_output(values.fresh(output + "/row"));
        setIntegers(row.proto, "axes", {0});
        last.proto.add_input(row.proto.output(0));
      }
      setInteger(last.proto, "axis", 0);
    }
    nodes.push_back(std::move(last));
  }
  return nodes;
}

} // namespace pdc
