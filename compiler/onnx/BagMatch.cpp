#include "compiler/onnx/BagMatch.h"

#include "compiler/onnx/NodeAttributes.h"

#include <algorithm>

namespace pdc {

BagMatch::BagMatch(const FlatNode &loop) : loop(loop), body(*loop.body) {
  for (const FlatNode &node : body.nodes)
    for (const std::string &output : node.proto.output())
      makers[output] = &node;
}

const FlatNode *BagMatch::nodeOf(const std::string &name) const {
  auto found = makers.find(name);
  return found == makers.end() ? nullptr : found->second;
}

const onnx::NodeProto *BagMatch::maker(const std::string &name) const {
  const FlatNode *node = nodeOf(name);
  return node ? &node->proto : nullptr;
}

const onnx::NodeProto *BagMatch::maker(const std::string &name, const char *op, int inputs) const {
  const onnx::NodeProto *node = maker(name);
  return node && node->op_type() == op && node->input_size() >= inputs ? node : nullptr;
}

bool BagMatch::isOutside(const std::string &name) const {
  return !name.empty() && !nodeOf(name) && std::ranges::count(body.inputs, name) == 0;
}

bool BagMatch::readMode(const onnx::NodeProto &reduction) {
  static const std::map<std::string, std::string> modes = {
      {"ReduceSum", "sum"}, {"ReduceMean", "mean"}, {"ReduceMax", "max"}};
  auto found = modes.find(reduction.op_type());
  if (found == modes.end())
    return false;
  mode = found->second;
  return true;
}

FlatNode BagMatch::bag(const std::vector<std::string> &inputs, const std::string &output) const {
  FlatNode node{{}, 1, loop.stages};
  node.proto.set_domain("pdc");
  node.proto.set_op_type("EmbeddingBag");
  node.proto.set_name(loop.proto.name());
  for (const std::string &input : inputs)
    node.proto.add_input(input);
  node.proto.add_output(output);
  setText(node.proto, "mode", mode);
  return node;
}

} // namespace pdc
