#include "compiler/onnx/EmbeddingBags.h"

#include "compiler/onnx/NodeAttributes.h"

#include <map>

namespace pdc {

namespace {

int64_t wholeOf(const onnx::NodeProto &node, std::string_view name, int64_t otherwise) {
  const onnx::AttributeProto *attribute = attributeOf(node, name);
  return attribute ? attribute->i() : otherwise;
}

/// Follows the body of a Loop from the row that it stacks to what it begins with:
///
///     start = Unsqueeze(Gather(starts, i))      end = Unsqueeze(Gather(ends, i))
///     found = Gather(table, Slice(indices, start, end))
///     row = Reduce(found), or Reduce(Mul(found, Unsqueeze(Slice(weights, start, end))))
class BodyMatch {
public:
  explicit BodyMatch(const FlatNode &loop) : body(*loop.body), loop(loop) {
    for (const FlatNode &node : body.nodes)
      for (const std::string &output : node.proto.output())
        makers[output] = &node.proto;
  }

  std::optional<EmbeddingBagLoop> find() {
    // Nothing is carried, and one row is stacked.
    if (body.inputs.size() != 2 || body.outputs.size() != 2 || loop.proto.output_size() != 1 ||
        loop.proto.input(0).empty() || !goesOn())
      return std::nullopt;
    const onnx::NodeProto *reduction = maker(body.outputs[1]);
    if (!reduction || !isOver(*reduction, 0) || wholeOf(*reduction, "keepdims", 1) != 0)
      return std::nullopt;
    if (reduction->op_type() == "ReduceSum")
      mode = "sum";
    else if (reduction->op_type() == "ReduceMean")
      mode = "mean";
    else if (reduction->op_type() == "ReduceMax")
      mode = "max";
    else
      return std::nullopt;
    if (!readRows(reduction->input(0)))
      return std::nullopt;
    return EmbeddingBagLoop{{bag()}, std::move(expected)};
  }

private:
  const onnx::NodeProto *maker(const std::string &name) const {
    auto found = makers.find(name);
    return found == makers.end() ? nullptr : found->second;
  }

  const onnx::NodeProto *maker(const std::string &name, const char *op, int inputs) const {
    const onnx::NodeProto *node = maker(name);
    return node && node->op_type() == op && node->input_size() >= inputs ? node : nullptr;
  }

  bool isOutside(const std::string &name) const {
    return !name.empty() && !maker(name) && name != body.inputs[0] && name != body.inputs[1];
  }

  /// Whether it is said outside that there is an iteration, and that another follows each.
  bool goesOn() {
    std::string last = body.outputs[0];
    while (const onnx::NodeProto *node = maker(last)) {
      if ((node->op_type() != "Cast" && node->op_type() != "Identity") || node->input_size() != 1)
        return false;
      last = node->input(0);
    }
    for (const std::string &condition : {last, loop.proto.input(1)})
      if (isOutside(condition))
        expected.emplace_back(condition, 1);
      else if (condition == body.inputs[0])
        return false;
    return true;
  }

  /// Axes are an attribute in older operator sets, and the input behind the data in newer ones.
  bool isOver(const onnx::NodeProto &node, int axis) {
    if (node.input_size() > 1) {
      expected.emplace_back(node.input(1), axis);
      return isOutside(node.input(1));
    }
    const onnx::AttributeProto *axes = attributeOf(node, "axes");
    return axes && axes->ints_size() == 1 && axes->ints(0) == axis;
  }

  /// Of the elements of a vector outside, the one of this iteration, as a vector.
  std::string readBound(const std::string &name) {
    const onnx::NodeProto *vector = maker(name, "Unsqueeze", 1);
    if (!vector || !isOver(*vector, 0))
      return "";
    const onnx::NodeProto *element = maker(vector->input(0), "Gather", 2);
    if (!element || element->input(1) != body.inputs[0] || wholeOf(*element, "axis", 0) != 0 ||
        !isOutside(element->input(0)))
      return "";
    return element->input(0);
  }

  /// Of a vector outside, what lies between this iteration's bounds.
  std::string readSlice(const std::string &name) {
    const onnx::NodeProto *slice = maker(name, "Slice", 3);
    if (!slice || slice->input_size() > 5 || !isOutside(slice->input(0)))
      return "";
    for (int i = 3; i < slice->input_size(); ++i) {
      expected.emplace_back(slice->input(i), i == 3 ? 0 : 1);
      if (!isOutside(slice->input(i)))
        return "";
    }
    const std::string from = readBound(slice->input(1)), to = readBound(slice->input(2));
    if (from.empty() || to.empty() || (!starts.empty() && (from != starts || to != ends)))
      return "";
    starts = from, ends = to;
    return slice->input(0);
  }

  bool readRows(std::string name) {
    if (const onnx::NodeProto *product = maker(name, "Mul", 2)) {
      const onnx::NodeProto *column = maker(product->input(1), "Unsqueeze", 1);
      if (!column || !isOver(*column, 1) || (weights = readSlice(column->input(0))).empty())
        return false;
      name = product->input(0);
    }
    const onnx::NodeProto *rows = maker(name, "Gather", 2);
    if (!rows || wholeOf(*rows, "axis", 0) != 0 || !isOutside(rows->input(0)))
      return false;
    table = rows->input(0);
    return !(indices = readSlice(rows->input(1))).empty();
  }

  FlatNode bag() const {
    FlatNode node{{}, 1, loop.stages};
    node.proto.set_domain("pdc");
    node.proto.set_op_type("EmbeddingBag");
    node.proto.set_name(loop.proto.name());
    for (const std::string &input : {table, indices, starts, ends, loop.proto.input(0), weights})
      node.proto.add_input(input);
    *node.proto.mutable_output() = loop.proto.output();
    onnx::AttributeProto &attribute = *node.proto.add_attribute();
    attribute.set_name("mode");
    attribute.set_type(onnx::AttributeProto::STRING);
    attribute.set_s(mode);
    return node;
  }

  const LoopBody &body;
  const FlatNode &loop;
  std::map<std::string, const onnx::NodeProto *> makers;
  std::vector<std::pair<std::string, double>> expected;
  std::string mode, table, indices, starts, ends, weights;
};

} // namespace

std::optional<EmbeddingBagLoop> stackedBagsOf(const FlatNode &loop) {
  return BodyMatch(loop).find();
}

} // namespace pdc
