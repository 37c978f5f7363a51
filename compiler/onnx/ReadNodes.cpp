#include "compiler/onnx/ReadNodes.h"

#include "compiler/onnx/ExporterMetadata.h"

#include "compiler/onnx/CheckNames.h"
#include "compiler/onnx/NodeAttributes.h"
#include "compiler/onnx/TensorProto.h"

#include <cmath>

namespace pdc {

using onnx::AttributeProto;

class NodeReader::Reading {
public:
  Reading(Names &values, const ModelFolder &folder, Model &model)
      : values(values), folder(folder), model(model) {}

  void read(FlatNode &flat) {
    onnx::NodeProto &proto = flat.proto;
    checkName(proto.name(), "node");
    for (const std::string &output : proto.output())
      checkName(output, "value");
    std::string name = names.fresh(proto.name().empty() ? proto.op_type() : proto.name());
    where =
        "node '" + name + "' (" + proto.op_type() + ", opset " + std::to_string(flat.opset) + ")";
    checkDomain(flat);
    if (becomesInitializer(flat, name))
      return;
    ImportedNode node = readNode(proto, name);
    normaliseNode(node, flat.opset);
    if (isClamp(proto))
      node.attributes.set("clamps", int64_t(1)); // as passes/RecogniseClip.cpp reads it
    if (squeezesWhereOne(proto))
      node.attributes.set("where_one", int64_t(1)); // as its shape rule reads it
    checkCounts(node);
    noteDroppedOutputs(proto, node);
    noteStages(flat, node.name);
    model.nodes.push_back({std::move(node.name), std::move(node.op), std::move(node.attributes),
                           std::move(node.inputs), std::move(node.outputs)});
  }

  const std::string &resolve(const std::string &name) const {
    auto alias = aliases.find(name);
    return alias == aliases.end() ? name : alias->second;
  }

  void checkOutputs() const {
    for (const ModelValue &output : model.outputs)
      requireMade(output.name, "the model");
  }

private:
  void noteStages(const FlatNode &flat, const std::string &name) {
    for (ModelPartition &partition : model.partitions)
      if (auto stage = flat.stages.find(partition.configuration); stage != flat.stages.end())
        partition.stages[name] = stage->second;
  }

  /// Operators of other domains have these before their names.
  void checkDomain(const FlatNode &flat) {
    const onnx::NodeProto &proto = flat.proto;
    const std::string &domain = proto.domain();
    if (flat.opset == 0 && !flat.selects && !flat.body)
      throw Error(describe(proto) + ": the model imports no operator set of domain '" +
                  (domain.empty() ? "ai.onnx" : domain) + "'");
    if (!domain.empty() && !findOperator(domain + "." + proto.op_type()))
      throw Error(where + ": operators of domain '" + domain +
                  "' are not supported; supported are those of ai.onnx and the model's own "
                  "functions");
  }

  ImportedNode readNode(onnx::NodeProto &proto, const std::string &name) {
    ImportedNode node;
    node.op = (proto.domain().empty() ? "" : proto.domain() + ".") + proto.op_type();
    node.name = name;
    if (findOperator(node.op))
      readAttributes(proto, node);
    for (int i = 0; i < proto.input_size(); ++i) {
      requireMade(proto.input(i), where);
      if (proto.op_type() == "BatchNormalization" && i >= 3)
        separate(proto.input(i));
      node.inputs.push_back(resolve(proto.input(i)));
    }
    node.outputs.assign(proto.output().begin(), proto.output().end());
    while (!node.inputs.empty() && node.inputs.back().empty())
      node.inputs.pop_back();
    while (!node.outputs.empty() && node.outputs.back().empty())
      node.outputs.pop_back();
    node.addConstant = [this, name](Tensor value) {
      return addConstant(values.fresh(name + "/constant"), value);
    };
    return node;
  }

  /// Bringing a node to the newest form may leave out outputs that nobody should need.
  void noteDroppedOutputs(const onnx::NodeProto &proto, const ImportedNode &node) {
    for (int i = int(node.outputs.size()); i < proto.output_size(); ++i)
      if (!proto.output(i).empty())
        dropped[proto.output(i)] = where;
  }

  void requireMade(const std::string &value, const std::string &reader) const {
    auto output = dropped.find(value);
    if (output != dropped.end())
      throw Error(output->second + ": output '" + value + "', which " + reader +
                  " reads, is not supported");
  }

  void readAttributes(onnx::NodeProto &proto, ImportedNode &node) {
    for (AttributeProto &attribute : *proto.mutable_attribute()) {
      if (node.attributes.has(attribute.name()))
        throw Error(where + ": attribute '" + attribute.name() + "' is given twice");
      node.attributes.set(attribute.name(), readAttribute(attribute));
    }
  }

  Attribute readAttribute(AttributeProto &attribute) {
    switch (kindOf(attribute)) {
    case AttributeProto::INT:
      return namesElement(attribute.name()) ? computedType(attribute.i()) : attribute.i();
    case AttributeProto::FLOAT:
      return number(attribute.name(), attribute.f());
    case AttributeProto::STRING:
      return attribute.s();
    case AttributeProto::INTS:
      return std::vector<int64_t>(attribute.ints().begin(), attribute.ints().end());
    case AttributeProto::FLOATS:
      return numbers(attribute);
    case AttributeProto::STRINGS:
      return std::vector<std::string>(attribute.strings().begin(), attribute.strings().end());
    case AttributeProto::TENSOR:
      return readTensor(takeInitializer(*attribute.mutable_t(),
                                        where + ", attribute '" + attribute.name() + "'", folder));
    default:
      break;
    }
    throw Error(
        where + ": attribute '" + attribute.name() +
        "' is a graph, a type or a sparse tensor; supported are numbers, strings, tensors and "
        "lists of numbers or strings");
  }

  static bool namesElement(const std::string &attribute) {
    return attribute == "to" || attribute == "dtype" || attribute == "output_datatype";
  }

  /// An ONNX data type, f32 where it is another floating-point one.
  int64_t computedType(int64_t type) {
    if (type != onnx::TensorProto::DOUBLE && type != onnx::TensorProto::FLOAT16 &&
        type != onnx::TensorProto::BFLOAT16)
      return type;
    model.widths.insert(toElementType(static_cast<int>(type), where));
    return onnx::TensorProto::FLOAT;
  }

  /// NaN is a value of elements, and a seed that says nothing.
  double number(const std::string &attribute, float value) const {
    const bool isElement = attribute.starts_with("value") || attribute == "extrapolation_value";
    if (std::isnan(value) && !isElement && attribute != "seed")
      throw Error(where + ": attribute '" + attribute + "' is NaN, expected a number");
    return asWritten(value);
  }

  std::vector<double> numbers(const AttributeProto &attribute) const {
    std::vector<double> result;
    for (float value : attribute.floats())
      result.push_back(number(attribute.name(), value));
    return result;
  }

  /// Files of IR 1 leave the type out.
  static int kindOf(const AttributeProto &a) {
    if (a.type() != AttributeProto::UNDEFINED)
      return a.type();
    if (a.has_f())
      return AttributeProto::FLOAT;
    if (a.has_i())
      return AttributeProto::INT;
    if (a.has_s())
      return AttributeProto::STRING;
    if (a.has_t())
      return AttributeProto::TENSOR;
    if (a.floats_size())
      return AttributeProto::FLOATS;
    if (a.ints_size())
      return AttributeProto::INTS;
    if (a.strings_size())
      return AttributeProto::STRINGS;
    return AttributeProto::UNDEFINED;
  }

  std::string addConstant(const std::string &name, const Tensor &value) {
    Initializer initializer{name, value.type, {}, {}, {}, 0, 0, true};
    for (double element : value.data)
      appendElement(initializer.bytes, value.type.element, element);
    initializer.length = initializer.bytes.size();
    model.initializers.emplace(name, std::move(initializer));
    return name;
  }

  template <typename Stored> static void append(std::string &bytes, Stored value) {
    bytes.append(reinterpret_cast<const char *>(&value), sizeof value);
  }

  void appendElement(std::string &bytes, ElementType element, double value) {
    switch (element) {
    case ElementType::f32:
      return append(bytes, static_cast<float>(value));
    case ElementType::i64:
      return append(bytes, toInteger(value));
    case ElementType::i32:
      return append(bytes, static_cast<int32_t>(toInteger(value)));
    case ElementType::i8:
      return append(bytes, static_cast<int8_t>(toInteger(value)));
    case ElementType::u8:
    case ElementType::boolean:
      return append(bytes, static_cast<uint8_t>(toInteger(value)));
    case ElementType::f64:
    case ElementType::f16:
    case ElementType::bf16:
      break;
    }
    throw Error(where + ": a constant of " + std::string(toString(element)) +
                " made from an attribute is not supported");
  }

  bool becomesInitializer(FlatNode &flat, const std::string &name) {
    onnx::NodeProto &proto = flat.proto;
    if (proto.op_type() == "Constant")
      return addConstantNode(flat, name), true;
    if (proto.op_type() == "ConstantOfShape")
      return addFill(proto);
    if (proto.op_type() == "Range" && addRange(proto))
      return true;
    return proto.op_type() == "Identity" && addAlias(proto);
  }

  const std::string &outputOf(const onnx::NodeProto &proto) {
    if (proto.output_size() != 1 || proto.output(0).empty())
      throw Error(where + ": expected one output, found " + std::to_string(proto.output_size()));
    return proto.output(0);
  }

  /// A tensor is taken as it is, since it may be large; the other spellings are small.
  void addConstantNode(FlatNode &flat, const std::string &name) {
    onnx::NodeProto &proto = flat.proto;
    const std::string &output = outputOf(proto);
    for (AttributeProto &attribute : *proto.mutable_attribute())
      if (attribute.name() == "value" && attribute.has_t()) {
        Initializer initializer = takeInitializer(*attribute.mutable_t(), where, folder);
        initializer.name = output;
        // A number, which sizes may be computed from, is no parameter.
        initializer.literal = !flat.isInitializer || initializer.type.shape.empty();
        model.initializers.emplace(output, std::move(initializer));
        return;
      }
    ImportedNode node = readNode(proto, name);
    for (const AttributeProto &attribute : proto.attribute()) {
      toElement(attribute.i(), where);
      for (int64_t value : attribute.ints())
        toElement(value, where);
    }
    normaliseNode(node, flat.opset);
    addConstant(output, *node.attributes.tensor("value"));
  }

  /// A weight as ConstantOfShape of a known shape: one repeated value, whatever its size.
  bool addFill(onnx::NodeProto &proto) {
    auto shape = proto.input_size() == 1 ? model.initializers.find(resolve(proto.input(0)))
                                         : model.initializers.end();
    if (shape == model.initializers.end())
      return false;
    Initializer fill{outputOf(proto), {}, 0.0, {}, {}, 0, 0};
    for (AttributeProto &attribute : *proto.mutable_attribute()) {
      if (attribute.name() != "value" || !attribute.has_t())
        throw Error(where + ": attribute '" + attribute.name() + "' is unknown; expected 'value'");
      Tensor value = readTensor(takeInitializer(*attribute.mutable_t(), where, folder));
      if (value.data.size() != 1)
        throw Error(where + ": attribute 'value' must have one element, found " +
                    value.type.toString());
      fill.type.element = value.type.element;
      fill.fill = value.data[0];
    }
    fill.type.shape = readShape(shape->second);
    checkedElementCount(fill.type, where);
    model.initializers.emplace(fill.name, std::move(fill));
    return true;
  }

  /// A Range of f64, whose length the bounds in f32 may tell otherwise.
  bool addRange(const onnx::NodeProto &proto) {
    double bounds[3];
    for (int i = 0; i < 3; ++i) {
      auto bound = proto.input_size() == 3 ? model.initializers.find(resolve(proto.input(i)))
                                           : model.initializers.end();
      if (bound == model.initializers.end() || bound->second.stored != ElementType::f64 ||
          bound->second.type.elementCount() != 1)
        return false;
      bounds[i] = readAsStored(bound->second).data[0];
    }
    const double count = std::ceil((bounds[1] - bounds[0]) / bounds[2]);
    if (!(count >= 1 && count <= 1 << 22))
      return false;
    Tensor range = Tensor::zeros({ElementType::f32, {static_cast<int64_t>(count)}});
    for (size_t i = 0; i < range.data.size(); ++i)
      range.data[i] = bounds[0] + static_cast<double>(i) * bounds[2];
    addConstant(outputOf(proto), range);
    return true;
  }

  std::vector<int64_t> readShape(const Initializer &initializer) {
    constexpr int64_t maximumRank = 64;
    const TensorType &type = initializer.type;
    if (type.element != ElementType::i64 || type.rank() != 1 || type.shape[0] > maximumRank)
      throw Error(where + ": expected a shape of type i64[rank], found " + type.toString());
    return readTensor(initializer).toIntegers();
  }

  /// Exporters write a shared weight as Identity of another one: then all read that one.
  bool addAlias(const onnx::NodeProto &proto) {
    if (proto.input_size() != 1 || !model.initializers.contains(resolve(proto.input(0))))
      return false;
    const std::string &name = outputOf(proto);
    for (const ModelValue &output : model.outputs)
      if (output.name == name)
        return false;
    aliases[name] = resolve(proto.input(0));
    return true;
  }

  /// Exporters write one of tensors of equal values, too: a fresh running variance and the scale,
  /// both of ones. A statistic that training keeps is a tensor of its own. Where a layer is called
  /// again, the newer exporter of PyTorch's writes one of the buffer that all its calls keep.
  void separate(const std::string &name) {
    auto alias = aliases.find(name);
    if (alias == aliases.end() || model.metadata.changedBuffers.contains(alias->second))
      return;
    Initializer statistic = model.initializers.at(alias->second);
    statistic.name = name;
    model.initializers.emplace(name, std::move(statistic));
    aliases.erase(alias);
  }

  void checkCounts(const ImportedNode &node) {
    const Operator *op = findOperator(node.op);
    if (!op || (op->inputs.empty() && op->outputs.empty()))
      return;
    checkCount("input", node.inputs, op->inputs);
    checkCount("output", node.outputs, op->outputs);
  }

  void checkCount(std::string_view what, const std::vector<std::string> &found,
                  const std::vector<Parameter> &parameters) {
    size_t needed = 0;
    for (size_t i = 0; i < parameters.size(); ++i)
      if (!parameters[i].optional)
        needed = i + 1;
    bool variadic = !parameters.empty() && parameters.back().variadic;
    if (found.size() < needed || (!variadic && found.size() > parameters.size()))
      throw Error(where + ": expected " +
                  (variadic                      ? "at least " + std::to_string(needed)
                   : needed == parameters.size() ? std::to_string(needed)
                                                 : std::to_string(needed) + " to " +
                                                       std::to_string(parameters.size())) +
                  " " + std::string(what) + (!variadic && parameters.size() == 1 ? "" : "s") +
                  ", found " + std::to_string(found.size()));
    for (size_t i = 0; i < needed; ++i)
      if (found[i].empty() && !parameters[i].optional)
        throw Error(where + ": '" + std::string(parameters[i].name) + "' is left out but needed");
  }

  Names &values;
  const ModelFolder &folder;
  Model &model;
  Names names;
  std::unordered_map<std::string, std::string> aliases;
  std::unordered_map<std::string, std::string> dropped; ///< outputs, and the node that had them
  std::string where;
};

NodeReader::NodeReader(Names &values, const ModelFolder &folder, Model &model)
    : reading(std::make_unique<Reading>(values, folder, model)) {}

NodeReader::~NodeReader() = default;

void NodeReader::read(FlatNode &node) { reading->read(node); }

const std::string &NodeReader::resolve(const std::string &name) const {
  return reading->resolve(name);
}
void NodeReader::checkOutputs() const { reading->checkOutputs(); }

} // namespace pdc
