#include "compiler/onnx/InitializeVariables.h"

#include "compiler/onnx/FlattenFunctions.h"
#include "compiler/onnx/NodeAttributes.h"
#include "compiler/onnx/TensorProto.h"

#include <bit>
#include <cmath>

namespace pdc {

namespace {

/// The values of the initialization graph that its nodes make without reading others.
class InitialValues {
public:
  InitialValues(const TrainingInfo &info, const ModelFolder &folder) : folder(folder) {
    for (const onnx::TensorProto &tensor : info.initial.initializer())
      tensors[tensor.name()] = &tensor;
    for (const onnx::NodeProto &node : info.initial.node())
      for (const std::string &output : node.output())
        producers[output] = &node;
  }

  Initializer make(const std::string &value, const std::string &variable) const {
    if (auto tensor = tensors.find(value); tensor != tensors.end())
      return copyOf(*tensor->second, "initializer '" + value + "'");
    auto producer = producers.find(value);
    if (producer == producers.end())
      throw Error("training_info: '" + value + "', the first value of '" + variable +
                  "', is made by no node of the initialization");
    const onnx::NodeProto &node = *producer->second;
    // What another domain calls so is another operator.
    const std::string op = canonicalDomain(node.domain()).empty() ? node.op_type() : "";
    if (op == "Constant" && node.attribute_size() == 1 && node.attribute(0).has_t())
      return copyOf(node.attribute(0).t(), describeNode(node));
    if (op == "Identity" && node.input_size() == 1 && tensors.contains(node.input(0)))
      return make(node.input(0), variable);
    if (op == "ConstantOfShape")
      return fill(node);
    if (op.starts_with("RandomNormal") || op.starts_with("RandomUniform"))
      return draw(node, variable);
    throw Error("training_info: " + describeNode(node) +
                " makes the first value of '" + variable +
                "'; supported are Constant, ConstantOfShape, Identity of an initializer, "
                "RandomNormal(Like) and RandomUniform(Like)");
  }

private:
  static std::string describeNode(const onnx::NodeProto &node) {
    return describe(node) + " of the initialization";
  }

  Initializer copyOf(const onnx::TensorProto &tensor, const std::string &where) const {
    onnx::TensorProto copy = tensor;
    return takeInitializer(copy, where, folder);
  }

  /// The operand, which must be a tensor or a Constant.
  Initializer operand(const onnx::NodeProto &node) const {
    const std::string name = node.input_size() ? node.input(0) : "";
    auto producer = producers.find(name);
    if (!tensors.contains(name) &&
        (producer == producers.end() || producer->second->op_type() != "Constant"))
      throw Error("training_info: " + describeNode(node) + ": input '" + name +
                  "' must be an initializer or a Constant of the initialization");
    return make(name, name);
  }

  Initializer fill(const onnx::NodeProto &node) const {
    constexpr size_t maximumRank = 64;
    Tensor shape = readTensor(operand(node));
    if (shape.type.element != ElementType::i64 || shape.type.rank() != 1)
      throw Error("training_info: " + describeNode(node) +
                  ": expected a shape of type i64[rank], found " + shape.type.toString());
    if (shape.data.size() > maximumRank)
      throw Error("training_info: " + describeNode(node) + ": its shape has more than " +
                  std::to_string(maximumRank) + " dimensions");
    Initializer result;
    result.fill = 0;
    for (const onnx::AttributeProto &attribute : node.attribute())
      if (attribute.has_t()) {
        Tensor value = readTensor(copyOf(attribute.t(), describeNode(node)));
        if (value.data.size() != 1)
          throw Error("training_info: " + describeNode(node) +
                      ": attribute 'value' must have one element");
        result.type.element = value.type.element;
        result.fill = value.data[0];
      }
    result.type.shape = shape.toIntegers();
    checkedElementCount(result.type, describeNode(node));
    return result;
  }

  /// A few bytes of the file say how many are drawn and written.
  static uint64_t checkedLength(const TensorType &type, const std::string &where) {
    constexpr uint64_t most = uint64_t(1) << 34;
    uint64_t length = static_cast<uint64_t>(checkedElementCount(type, where)) * bytesPerElement(type.element);
    if (length > most)
      throw Error("training_info: " + where + ": draws " + type.toString() + ", which has " +
                  std::to_string(length) + " bytes, expected at most " + std::to_string(most));
    return length;
  }

  using Type = onnx::AttributeProto::AttributeType;

  static void expectType(const onnx::NodeProto &node, const onnx::AttributeProto &attribute,
                         Type type) {
    if (attribute.type() != type)
      throw Error("training_info: " + describeNode(node) + ": attribute '" + attribute.name() +
                  "' is of type " + onnx::AttributeProto::AttributeType_Name(attribute.type()) +
                  ", expected " + onnx::AttributeProto::AttributeType_Name(type) +
                  "; correct it in the file");
  }

  static float finiteNumber(const onnx::NodeProto &node, const onnx::AttributeProto &attribute) {
    expectType(node, attribute, onnx::AttributeProto::FLOAT);
    if (!std::isfinite(attribute.f()))
      throw Error("training_info: " + describeNode(node) + ": attribute '" + attribute.name() +
                  "' is " + textOf(attribute.f()) +
                  ", expected a finite number; correct it in the file");
    return attribute.f();
  }

  static void checkDraw(const onnx::NodeProto &node, const Draw &numbers) {
    auto text = [](double number) { return textOf(asWritten(static_cast<float>(number))); };
    if (numbers.normal && numbers.second < 0)
      throw Error("training_info: " + describeNode(node) +
                  ": attribute 'scale', the deviation, is " + text(numbers.second) +
                  ", expected at least 0; correct it in the file");
    if (!numbers.normal && numbers.first > numbers.second)
      throw Error("training_info: " + describeNode(node) + ": draws from " + text(numbers.first) +
                  " to " + text(numbers.second) +
                  ", expected attribute 'low' to be at most 'high'; exchange them");
  }

  /// Without a seed the variable's name is one, so that a file gives the same weights each time.
  Initializer draw(const onnx::NodeProto &node, const std::string &variable) const {
    Initializer result;
    bool normal = node.op_type().starts_with("RandomNormal");
    Draw numbers{normal, 0, 1, 0xcbf29ce484222325};
    for (unsigned char c : variable)
      numbers.seed = (numbers.seed ^ c) * 0x100000001b3;
    if (node.op_type().ends_with("Like"))
      result.type = operand(node).type;
    for (const onnx::AttributeProto &attribute : node.attribute()) {
      const std::string &name = attribute.name();
      if (name == (normal ? "mean" : "low"))
        numbers.first = finiteNumber(node, attribute);
      else if (name == (normal ? "scale" : "high"))
        numbers.second = finiteNumber(node, attribute);
      else if (name == "seed")
        numbers.seed = std::bit_cast<uint32_t>(finiteNumber(node, attribute));
      else if (name == "shape") {
        expectType(node, attribute, onnx::AttributeProto::INTS);
        result.type.shape.assign(attribute.ints().begin(), attribute.ints().end());
      } else if (name == "dtype") {
        expectType(node, attribute, onnx::AttributeProto::INT);
        result.type.element = toElementType(static_cast<int>(attribute.i()), describeNode(node));
      } else
        throw Error("training_info: " + describeNode(node) + ": attribute '" + name +
                    "' is unknown");
    }
    if (result.type.element != ElementType::f32 && result.type.element != ElementType::f64)
      throw Error("training_info: " + describeNode(node) + ": draws " + result.type.toString() +
                  ", expected f32 or f64");
    checkDraw(node, numbers);
    result.type.element = computedElement(result.type.element);
    result.length = checkedLength(result.type, describeNode(node));
    result.draw = numbers;
    return result;
  }

  const ModelFolder &folder;
  std::map<std::string, const onnx::TensorProto *> tensors;
  std::map<std::string, const onnx::NodeProto *> producers;
};

} // namespace

void initializeVariables(const TrainingInfo &info, const ModelFolder &folder, Model &model) {
  InitialValues values(info, folder);
  for (const auto &[variable, value] : info.initialization) {
    auto found = model.initializers.find(variable);
    if (found == model.initializers.end())
      throw Error("training_info: the initialization_binding names '" + variable +
                  "', which is no initializer of the graph or the algorithm");
    Initializer initial = values.make(value, variable);
    if (!(initial.type == found->second.type))
      throw Error("training_info: the first value of '" + variable + "' is " +
                  initial.type.toString() + ", expected " + found->second.type.toString());
    initial.name = variable;
    found->second = std::move(initial);
  }
}

} // namespace pdc
