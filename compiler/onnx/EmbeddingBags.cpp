#include "compiler/onnx/BagMatch.h"
#include "compiler/onnx/NodeAttributes.h"

namespace pdc {

namespace {

/// Follows the body of a Loop from the row that it stacks to what it begins with:
///
///     start = Unsqueeze(Gather(starts, i))      end = Unsqueeze(Gather(ends, i))
///     found = Gather(table, Slice(indices, start, end))
///     row = Reduce(found), or Reduce(Mul(found, Unsqueeze(Slice(weights, start, end))))
class StackedBagMatch : BagMatch {
public:
  explicit StackedBagMatch(const FlatNode &loop) : BagMatch(loop) {}

  std::optional<EmbeddingBagLoop> find() {
    // Nothing is carried, and one row is stacked.
    if (body.inputs.size() != 2 || body.outputs.size() != 2 || loop.proto.output_size() != 1 ||
        loop.proto.input(0).empty() || !goesOn())
      return std::nullopt;
    const onnx::NodeProto *reduction = maker(body.outputs[1]);
    if (!reduction || !isOver(*reduction, 0) || integerOf(*reduction, "keepdims", 1) != 0 ||
        !readMode(*reduction) || !readRows(reduction->input(0)))
      return std::nullopt;
    return EmbeddingBagLoop{
        {bag({table, indices, starts, ends, loop.proto.input(0), weights}, loop.proto.output(0))},
        std::move(expected)};
  }

private:
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
    if (!element || element->input(1) != body.inputs[0] || integerOf(*element, "axis", 0) != 0 ||
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
    if (!rows || integerOf(*rows, "axis", 0) != 0 || !isOutside(rows->input(0)))
      return false;
    table = rows->input(0);
    return !(indices = readSlice(rows->input(1))).empty();
  }

  std::string table, indices, starts, ends, weights;
};

} // namespace

std::optional<EmbeddingBagLoop> stackedBagsOf(const FlatNode &loop) {
  return StackedBagMatch(loop).find();
}

} // namespace pdc
