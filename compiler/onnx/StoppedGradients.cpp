#include "compiler/onnx/StoppedGradients.h"

#include "compiler/onnx/ExporterMetadata.h"

#include <algorithm>

namespace pdc {

namespace {

class Stops {
public:
  Stops(std::vector<FlatNode> &nodes, Names &values, const std::set<std::string> &nextBuffers)
      : nodes(nodes), values(values), nextBuffers(nextBuffers) {}

  void add() {
    for (FlatNode &node : nodes) {
      if (isDetach(node.proto))
        becomeStop(node);
      if (auto row = paddingRow(node.proto); row && node.proto.output_size() == 1)
        stopRow(node, *row);
      for (std::string &output : *node.proto.mutable_output())
        if (nextBuffers.contains(output))
          stopBehind(node, output);
      if (node.body) {
        auto body = std::make_shared<LoopBody>(*node.body);
        Stops(body->nodes, values, {}).add();
        node.body = body;
      }
    }
    std::ranges::move(added, std::back_inserter(nodes));
  }

private:
  static void becomeStop(FlatNode &node) {
    node.proto.set_domain("pdc");
    node.proto.set_op_type("StopGradient");
    node.opset = 1;
  }

  /// A node between the value and its readers, which find the value under its name.
  void stopBehind(const FlatNode &maker, std::string &value) {
    const std::string readers = value;
    value = values.fresh(readers + "/flowing");
    becomeStop(make(maker, "", {value}, readers));
  }

  /// Where the index is that of the row, what is read of it is stopped.
  void stopRow(FlatNode &gather, int64_t row) {
    const std::string readers = gather.proto.output(0), rows = values.fresh(readers + "/rows");
    gather.proto.set_output(0, rows);
    auto of = [&](const char *name) { return values.fresh(readers + name); };
    auto number = [&](const char *name, const std::vector<int64_t> &numbers) {
      FlatNode &node = make(gather, "Constant", {}, of(name));
      addIntegers(node, "value_ints", numbers);
      return node.proto.output(0);
    };
    auto made = [&](const char *op, const char *name,
                    std::vector<std::string> inputs) -> FlatNode & {
      return make(gather, op, std::move(inputs), of(name));
    };
    FlatNode &indices = made("Cast", "/indices", {gather.proto.input(1)});
    addInteger(indices, "to", onnx::TensorProto::INT64);
    const std::string index = indices.proto.output(0), padding = number("/padding", {row});
    const std::string is = made("Equal", "/is_padding", {index, padding}).proto.output(0);
    const std::string last = number("/last_axis", {-1});
    const std::string column = made("Unsqueeze", "/column", {is, last}).proto.output(0);
    FlatNode &stop = made("", "/stopped", {rows});
    becomeStop(stop);
    const std::string stopped = stop.proto.output(0);
    make(gather, "Where", {column, stopped, rows}, readers);
  }

  /// The reference holds until the next one is made.
  FlatNode &make(const FlatNode &beside, const char *op, std::vector<std::string> inputs,
                 const std::string &output) {
    FlatNode node{{}, beside.opset, beside.stages};
    node.proto.set_op_type(op);
    node.proto.set_name(output + "/stop");
    for (const std::string &input : inputs)
      node.proto.add_input(input);
    node.proto.add_output(output);
    return added.emplace_back(std::move(node));
  }

  static onnx::AttributeProto &attribute(FlatNode &node, const char *name,
                                         onnx::AttributeProto::AttributeType type) {
    onnx::AttributeProto &attribute = *node.proto.add_attribute();
    attribute.set_name(name);
    attribute.set_type(type);
    return attribute;
  }
  static void addInteger(FlatNode &node, const char *name, int64_t number) {
    attribute(node, name, onnx::AttributeProto::INT).set_i(number);
  }
  static void addIntegers(FlatNode &node, const char *name, const std::vector<int64_t> &numbers) {
    onnx::AttributeProto &list = attribute(node, name, onnx::AttributeProto::INTS);
    for (int64_t number : numbers)
      list.add_ints(number);
  }

  std::vector<FlatNode> &nodes;
  Names &values;
  const std::set<std::string> &nextBuffers;
  std::vector<FlatNode> added;
};

} // namespace

void stopGradients(std::vector<FlatNode> &nodes, Names &values, const ExporterMetadata &metadata) {
  Stops(nodes, values, metadata.nextBuffers).add();
}

} // namespace pdc
