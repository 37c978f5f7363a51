#include "compiler/onnx/Sequences.h"

#include "compiler/onnx/NodeAttributes.h"
#include "compiler/onnx/TensorProto.h"
#include "compiler/operators/Slice.h"

#include <algorithm>
#include <limits>
#include <set>

namespace pdc {

namespace {

/// An operator set that has Split, Slice, Squeeze and Unsqueeze with their numbers as inputs.
constexpr int writtenOpset = 13;

/// Of parts that are written out.
constexpr int64_t mostParts = 4096;

} // namespace

class SequenceReplacement::Sequences {
public:
  /// Without any, nothing is looked at.
  Sequences(Names &values, const onnx::GraphProto &graph, const Model &model, bool areThere)
      : values(values), model(model), areThere(areThere) {
    for (const auto *list : {&graph.value_info(), &graph.input()})
      for (const onnx::ValueInfoProto &value : *list)
        declared[value.name()] = &value;
  }

  std::vector<FlatNode> replace(FlatNode node, const Known &known) {
    nodes.clear();
    knownElsewhere = known ? &known : nullptr;
    if (areThere)
      noteConstant(node.proto);
    if (!areThere || !node.proto.domain().empty() || node.proto.output_size() != 1 ||
        !isTaken(node))
      nodes.push_back(std::move(node));
    return std::move(nodes);
  }

  bool isEmpty(const std::string &name) const {
    auto found = sequences.find(name);
    return found != sequences.end() && found->second.count == 0;
  }

  void addRows(const std::string &name, const std::string &tensor) {
    Sequence &sequence = sequences[name] = {};
    sequence.whole = tensor;
    sequence.size = 1;
  }

private:
  /// The elements where their number is known and small; else equal parts of a tensor, one after
  /// the other, which are sliced where they are read.
  struct Sequence {
    std::vector<std::string> elements;
    std::optional<int64_t> count;
    std::string whole;
    int64_t axis = 0, size = 0;
    bool isSqueezed = false;
  };

  bool isTaken(const FlatNode &node) {
    const std::string &op = node.proto.op_type();
    if (op == "SequenceEmpty")
      return addConstruct(node.proto);
    if (node.proto.input_size() < 1)
      return false;
    if (op == "SplitToSequence")
      return addSplit(node);
    if (op == "SequenceConstruct")
      return addConstruct(node.proto);
    auto found = sequences.find(node.proto.input(0));
    if (found == sequences.end())
      return false;
    const Sequence sequence = found->second;
    if (op == "Identity")
      return sequences[node.proto.output(0)] = sequence, true;
    if (op == "SequenceAt")
      return addElement(node, sequence);
    if (op == "SequenceInsert")
      return addInsertion(node, sequence);
    if (op == "SequenceErase")
      return addErasure(node, sequence);
    if (op == "SequenceLength")
      return addLength(node, sequence);
    return op == "ConcatFromSequence" && addConcat(node, sequence);
  }

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
    if (attribute.first)
      setInteger(made.proto, attribute.first, attribute.second);
    nodes.push_back(std::move(made));
    return outputs;
  }

  onnx::NodeProto &addConstant(const FlatNode &like, const std::string &output) {
    FlatNode &made = nodes.emplace_back(FlatNode{{}, writtenOpset, like.stages});
    made.proto.set_op_type("Constant");
    made.proto.add_output(output);
    return made.proto;
  }

  std::string vector(const FlatNode &like, const std::vector<int64_t> &elements) {
    std::string name = values.fresh(like.proto.output(0) + "/constant");
    setIntegers(addConstant(like, name), "value_ints", elements);
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
    const bool hasSizes = proto.input_size() > 1 && !proto.input(1).empty();
    std::optional<Integers> sizes = hasSizes ? integersOf(proto.input(1)) : Integers{{}, {1}};
    if (!sizes || sizes->shape.size() > 1)
      return false;
    Sequence sequence;
    sequence.whole = proto.input(0);
    sequence.axis = integerOf(proto, "axis", 0);
    sequence.isSqueezed = !hasSizes && integerOf(proto, "keepdims", 1) == 0;
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
    Sequence &sequence = sequences[proto.output(0)];
    sequence.elements.assign(proto.input().begin(), proto.input().end());
    sequence.count = proto.input_size();
    return true;
  }

  std::optional<int64_t> placeNamed(const FlatNode &reader, const std::string &name) const {
    if (std::optional<Integers> found = integersOf(name))
      return found->elements.size() == 1 ? std::optional(found->elements[0]) : std::nullopt;
    std::optional<double> found = knownElsewhere ? (*knownElsewhere)(reader, name) : std::nullopt;
    return found ? std::optional(static_cast<int64_t>(*found)) : std::nullopt;
  }

  /// The number of the element that the node asks for, from the end where it is negative; nothing
  /// where it is not known. `behind` is as far as it may be beyond the last one.
  std::optional<int64_t> placeIn(const FlatNode &node, const Sequence &sequence,
                                 int64_t behind = 0) const {
    std::optional<int64_t> at = placeNamed(node, *placeOf(node.proto));
    if (!at)
      return std::nullopt;
    const std::optional<int64_t> &count = sequence.count;
    // Behind the most elements that there can be lies no number.
    const int64_t end = count ? *count : std::numeric_limits<int64_t>::max() / sequence.size;
    if (*at < (count ? -end : 0) || *at >= end + behind)
      throw Error(describe(node.proto) + ": reads element " + std::to_string(*at) + " of " +
                  (count ? std::to_string(end) : "a sequence of unknown length"));
    return *at < 0 ? *at + end : *at;
  }

  bool addElement(const FlatNode &node, const Sequence &sequence) {
    std::optional<int64_t> at = placeOf(node.proto) ? placeIn(node, sequence) : std::nullopt;
    if (!at)
      return false;
    std::string element = sequence.elements.empty() ? slice(node, sequence, *at)
                                                    : sequence.elements[static_cast<size_t>(*at)];
    if (sequence.isSqueezed)
      make(node, "Squeeze", {element, vector(node, {sequence.axis})}, {node.proto.output(0)});
    else
      make(node, "Identity", {element}, {node.proto.output(0)});
    return true;
  }

  /// Tensors as they are read; nothing where it is not known how many.
  std::optional<std::vector<std::string>> elementsOf(const FlatNode &node,
                                                     const Sequence &sequence) {
    if (sequence.count != static_cast<int64_t>(sequence.elements.size()))
      return std::nullopt;
    std::vector<std::string> elements = sequence.elements;
    if (sequence.isSqueezed)
      for (std::string &element : elements)
        element = make(node, "Squeeze", {element, vector(node, {sequence.axis})}, {fresh(node)})[0];
    return elements;
  }

  void addSequence(const FlatNode &node, std::vector<std::string> elements) {
    Sequence &sequence = sequences[node.proto.output(0)] = {};
    sequence.count = static_cast<int64_t>(elements.size());
    sequence.elements = std::move(elements);
  }

  bool addInsertion(const FlatNode &node, const Sequence &sequence) {
    const onnx::NodeProto &proto = node.proto;
    std::optional<int64_t> at = placeOf(proto) ? placeIn(node, sequence, 1) : sequence.count;
    if (!at || proto.input_size() < 2)
      return false;
    std::optional<std::vector<std::string>> elements = elementsOf(node, sequence);
    if (!elements)
      return false;
    elements->insert(elements->begin() + *at, proto.input(1));
    addSequence(node, std::move(*elements));
    return true;
  }

  bool addErasure(const FlatNode &node, const Sequence &sequence) {
    if (sequence.count == 0)
      throw Error(describe(node.proto) + ": takes an element out of an empty sequence");
    std::optional<int64_t> at = sequence.count;
    if (placeOf(node.proto))
      at = placeIn(node, sequence);
    else if (at)
      *at -= 1;
    if (!at)
      return false;
    std::optional<std::vector<std::string>> elements = elementsOf(node, sequence);
    if (!elements)
      return false;
    elements->erase(elements->begin() + *at);
    addSequence(node, std::move(*elements));
    return true;
  }

  bool addLength(const FlatNode &node, const Sequence &sequence) {
    if (!sequence.count)
      return false;
    setInteger(addConstant(node, node.proto.output(0)), "value_int", *sequence.count);
    constants[node.proto.output(0)] = {{}, {*sequence.count}};
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

  bool addConcat(const FlatNode &node, const Sequence &sequence) {
    if (sequence.count == 0)
      throw Error(describe(node.proto) + ": joins a sequence without elements");
    const int64_t axis = integerOf(node.proto, "axis", 0);
    const bool isNewAxis = integerOf(node.proto, "new_axis", 0);
    if (sequence.elements.empty() && !sequence.isSqueezed && !isNewAxis && axis == sequence.axis)
      return make(node, "Identity", {sequence.whole}, {node.proto.output(0)}), true;
    std::optional<std::vector<std::string>> elements = elementsOf(node, sequence);
    if (!elements)
      return false;
    if (isNewAxis)
      for (std::string &element : *elements)
        element = make(node, "Unsqueeze", {element, vector(node, {axis})}, {fresh(node)})[0];
    make(node, "Concat", *elements, {node.proto.output(0)}, {"axis", axis});
    return true;
  }

  Names &values;
  const Model &model;
  const bool areThere;
  std::map<std::string, const onnx::ValueInfoProto *> declared;
  std::map<std::string, Integers> constants;
  std::map<std::string, Sequence> sequences;
  const Known *knownElsewhere = nullptr;
  std::vector<FlatNode> nodes; ///< in the place of the present one
};

static bool haveSequences(const std::vector<FlatNode> &nodes) {
  static const std::set<std::string> makers = {"SequenceConstruct", "SequenceEmpty",
                                               "SplitToSequence"};
  return std::ranges::any_of(nodes, [](const FlatNode &node) {
    return makers.contains(node.proto.op_type()) || (node.body && haveSequences(node.body->nodes));
  });
}

SequenceReplacement::SequenceReplacement(const std::vector<FlatNode> &nodes, Names &values,
                                         const onnx::GraphProto &graph, const Model &model)
    : sequences(std::make_unique<Sequences>(values, graph, model, haveSequences(nodes))) {}

SequenceReplacement::~SequenceReplacement() = default;

bool SequenceReplacement::isEmpty(const std::string &sequence) const {
  return sequences->isEmpty(sequence);
}

void SequenceReplacement::addRows(const std::string &sequence, const std::string &tensor) {
  sequences->addRows(sequence, tensor);
}

const std::string *SequenceReplacement::placeOf(const onnx::NodeProto &node) {
  const std::string &op = node.op_type();
  const int operand = op == "SequenceInsert" ? 2 : 1;
  const bool may = op == "SequenceInsert" || op == "SequenceAt" || op == "SequenceErase";
  const bool has = may && node.domain().empty() && operand < node.input_size();
  return has && !node.input(operand).empty() ? &node.input(operand) : nullptr;
}

std::vector<FlatNode> SequenceReplacement::replace(FlatNode node, const Known &known) {
  return sequences->replace(std::move(node), known);
}

} // namespace pdc
