#include "compiler/onnx/Sequences.h"

#include "compiler/onnx/NodeAttributes.h"
#include "compiler/onnx/TensorProto.h"
#include "compiler/operators/Slice.h"

#include <algorithm>
#include <limits>

namespace pdc {

namespace {

/// The elements where their number is known and small; else equal parts of a tensor, one after the
/// other, which are sliced where they are read.
struct Sequence {
  std::vector<std::string> elements;
  std::optional<int64_t> count;
  std::string whole;
  int64_t axis = 0, size = 0;
  bool isSqueezed = false;
};

/// An operator set that has Split, Slice, Squeeze and Unsqueeze with their numbers as inputs.
constexpr int writtenOpset = 13;

/// Of parts that are written out.
constexpr int64_t mostParts = 4096;

int64_t integerAttribute(const onnx::NodeProto &node, std::string_view name, int64_t otherwise) {
  const onnx::AttributeProto *attribute = attributeOf(node, name);
  return attribute ? attribute->i() : otherwise;
}

class SequenceReplacer {
public:
  SequenceReplacer(Names &values, const onnx::GraphProto &graph, const Model &model)
      : values(values), model(model) {
    for (const auto *list : {&graph.value_info(), &graph.input()})
      for (const onnx::ValueInfoProto &value : *list)
        declared[value.name()] = &value;
  }

  void add(FlatNode node) {
    const onnx::NodeProto &proto = node.proto;
    noteConstant(proto);
    const std::string &op = proto.op_type();
    const bool isTaken =
        proto.domain().empty() && ((op == "SplitToSequence" && addSplit(node)) ||
                                   (op == "SequenceConstruct" && addConstruct(proto)) ||
                                   (op == "SequenceAt" && addElement(node)) ||
                                   (op == "ConcatFromSequence" && addConcat(node)));
    if (!isTaken)
      nodes.push_back(std::move(node));
  }

  std::vector<FlatNode> nodes;

private:
  void noteConstant(const onnx::NodeProto &proto) {
    if (!proto.domain().empty() || proto.op_type() != "Constant" || proto.output_size() != 1)
      return;
    for (const onnx::AttributeProto &attribute : proto.attribute())
      if (attribute.name() == "value_int")
        constants[proto.output(0)] = {{}, {attribute.i()}};
      else if (attribute.name() == "value_ints")
        constants[proto.output(0)] = {{attribute.ints_size()},
                                      {attribute.ints().begin(), attribute.ints().end()}};
      else if (attribute.name() == "value" && attribute.t().data_type() == onnx::TensorProto::INT64)
        noteTensor(proto, attribute.t());
  }

  void noteTensor(const onnx::NodeProto &proto, onnx::TensorProto tensor) {
    Tensor value = readTensor(takeInitializer(tensor, describe(proto), {}));
    constants[proto.output(0)] = {value.type.shape, value.toIntegers()};
  }

  struct Integers {
    std::vector<int64_t> shape, elements;
  };

  std::optional<Integers> integersOf(const std::string &name) const {
    if (auto constant = constants.find(name); constant != constants.end())
      return constant->second;
    auto found = model.initializers.find(name);
    constexpr int64_t most = 4096;
    if (found == model.initializers.end() || isFloatingPoint(found->second.type.element) ||
        found->second.type.elementCount() > most)
      return std::nullopt;
    return Integers{found->second.type.shape, readTensor(found->second).toIntegers()};
  }

  /// A node in the place of `like`; returns its outputs.
  std::vector<std::string> make(const FlatNode &like, const std::string &op,
                                const std::vector<std::string> &inputs,
                                std::vector<std::string> outputs,
                                std::pair<const char *, int64_t> attribute = {}) {
    FlatNode made{{}, writtenOpset, like.stages};
    made.proto.set_name((like.proto.name().empty() ? like.proto.output(0) : like.proto.name()) +
                        "/" + op);
    made.proto.set_op_type(op);
    for (const std::string &input : inputs)
      made.proto.add_input(input);
    for (const std::string &output : outputs)
      made.proto.add_output(output);
    if (attribute.first) {
      onnx::AttributeProto &axis = *made.proto.add_attribute();
      axis.set_name(attribute.first);
      axis.set_type(onnx::AttributeProto::INT);
      axis.set_i(attribute.second);
    }
    nodes.push_back(std::move(made));
    return outputs;
  }

  std::string vector(const FlatNode &like, const std::vector<int64_t> &elements) {
    std::string name = values.fresh(like.proto.output(0) + "/constant");
    FlatNode made{{}, writtenOpset, like.stages};
    made.proto.set_op_type("Constant");
    made.proto.add_output(name);
    onnx::AttributeProto &value = *made.proto.add_attribute();
    value.set_name("value_ints");
    value.set_type(onnx::AttributeProto::INTS);
    for (int64_t element : elements)
      value.add_ints(element);
    nodes.push_back(std::move(made));
    return name;
  }

  std::string fresh(const FlatNode &node) {
    return values.fresh(node.proto.output(0) + "/element");
  }

  /// How long the dimension is that is split, where the file says it.
  std::optional<int64_t> dimensionOf(const std::string &name, int64_t axis) const {
    std::vector<std::optional<int64_t>> shape;
    if (auto found = model.initializers.find(name); found != model.initializers.end()) {
      shape.assign(found->second.type.shape.begin(), found->second.type.shape.end());
    } else if (auto value = declared.find(name); value != declared.end()) {
      for (const auto &dimension : value->second->type().tensor_type().shape().dim())
        shape.push_back(dimension.dim_value() > 0 ? std::optional(dimension.dim_value())
                                                  : std::nullopt);
    }
    const auto rank = static_cast<int64_t>(shape.size());
    axis += axis < 0 ? rank : 0;
    return axis >= 0 && axis < rank ? shape[static_cast<size_t>(axis)] : std::nullopt;
  }

  bool addSplit(const FlatNode &node) {
    const onnx::NodeProto &proto = node.proto;
    if (proto.input_size() < 1 || proto.output_size() != 1)
      return false;
    const bool hasSizes = proto.input_size() > 1 && !proto.input(1).empty();
    std::optional<Integers> sizes = hasSizes ? integersOf(proto.input(1)) : Integers{{}, {1}};
    if (!sizes || sizes->shape.size() > 1)
      return false;
    Sequence sequence;
    sequence.whole = proto.input(0);
    sequence.axis = integerAttribute(proto, "axis", 0);
    sequence.isSqueezed = !hasSizes && integerAttribute(proto, "keepdims", 1) == 0;
    if (sizes->shape.empty()) {
      sequence.size = sizes->elements.at(0);
      if (sequence.size < 1)
        throw Error(describe(proto) + ": splits into parts of " + std::to_string(sequence.size) +
                    ", expected at least 1");
      std::optional<int64_t> length = dimensionOf(sequence.whole, sequence.axis);
      if (length)
        sequence.count = *length / sequence.size + (*length % sequence.size != 0);
      sizes->elements.clear();
      if (sequence.count && *sequence.count <= mostParts)
        for (int64_t left = *length; left > 0; left -= sequence.size)
          sizes->elements.push_back(std::min(left, sequence.size));
    } else {
      sequence.count = sizes->shape[0];
    }
    for (size_t i = 0; i < sizes->elements.size(); ++i)
      sequence.elements.push_back(fresh(node));
    if (!sequence.elements.empty())
      make(node, "Split", {sequence.whole, vector(node, sizes->elements)}, sequence.elements,
           {"axis", sequence.axis});
    sequences[proto.output(0)] = std::move(sequence);
    return true;
  }

  bool addConstruct(const onnx::NodeProto &proto) {
    if (proto.output_size() != 1)
      return false;
    Sequence &sequence = sequences[proto.output(0)];
    sequence.elements.assign(proto.input().begin(), proto.input().end());
    sequence.count = proto.input_size();
    return true;
  }

  bool addElement(const FlatNode &node) {
    const onnx::NodeProto &proto = node.proto;
    auto found = proto.input_size() == 2 ? sequences.find(proto.input(0)) : sequences.end();
    std::optional<Integers> index =
        found == sequences.end() ? std::nullopt : integersOf(proto.input(1));
    if (!index || index->elements.size() != 1 || proto.output_size() != 1)
      return false;
    const Sequence &sequence = found->second;
    const std::optional<int64_t> &count = sequence.count;
    int64_t at = index->elements[0];
    // Behind the most elements that there can be lies no number.
    const int64_t end = count ? *count : std::numeric_limits<int64_t>::max() / sequence.size;
    if (at < (count ? -end : 0) || at >= end)
      throw Error(describe(proto) + ": reads element " + std::to_string(at) + " of " +
                  (count ? std::to_string(end) : "a sequence of unknown length"));
    at += at < 0 ? end : 0;
    std::string element = sequence.elements.empty() ? slice(node, sequence, at)
                                                    : sequence.elements[static_cast<size_t>(at)];
    if (sequence.isSqueezed)
      make(node, "Squeeze", {element, vector(node, {sequence.axis})}, {proto.output(0)});
    else
      make(node, "Identity", {element}, {proto.output(0)});
    return true;
  }

  /// An element that turns out not to be there is refused where shapes are known.
  std::string slice(const FlatNode &node, const Sequence &sequence, int64_t at) {
    std::string first = vector(node, {at * sequence.size}),
                last = vector(node, {(at + 1) * sequence.size}),
                axis = vector(node, {sequence.axis});
    return make(node, "Slice", {sequence.whole, first, last, axis}, {fresh(node)},
                {kRefusesEmpty, 1})[0];
  }

  bool addConcat(const FlatNode &node) {
    const onnx::NodeProto &proto = node.proto;
    auto found = proto.input_size() == 1 ? sequences.find(proto.input(0)) : sequences.end();
    if (found == sequences.end() || found->second.elements.empty() || proto.output_size() != 1)
      return false;
    const Sequence &sequence = found->second;
    const int64_t axis = integerAttribute(proto, "axis", 0);
    std::vector<std::string> elements = sequence.elements;
    for (std::string &element : elements) {
      if (sequence.isSqueezed)
        element = make(node, "Squeeze", {element, vector(node, {sequence.axis})}, {fresh(node)})[0];
      if (integerAttribute(proto, "new_axis", 0))
        element = make(node, "Unsqueeze", {element, vector(node, {axis})}, {fresh(node)})[0];
    }
    make(node, "Concat", elements, {proto.output(0)}, {"axis", axis});
    return true;
  }

  Names &values;
  const Model &model;
  std::map<std::string, const onnx::ValueInfoProto *> declared;
  std::map<std::string, Integers> constants;
  std::map<std::string, Sequence> sequences;
};

} // namespace

void replaceSequences(std::vector<FlatNode> &nodes, Names &values, const onnx::GraphProto &graph,
                      const Model &model) {
  auto isOfSequences = [](const FlatNode &node) {
    const std::string &op = node.proto.op_type();
    return node.proto.domain().empty() && (op == "SplitToSequence" || op == "SequenceConstruct");
  };
  if (std::ranges::none_of(nodes, isOfSequences))
    return;
  SequenceReplacer replacer(values, graph, model);
  for (FlatNode &node : nodes)
    replacer.add(std::move(node));
  nodes = std::move(replacer.nodes);
}

} // namespace pdc
