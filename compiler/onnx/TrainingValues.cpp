#include "compiler/onnx/TrainingValues.h"

#include "compiler/onnx/NodeAttributes.h"
#include "compiler/onnx/TensorProto.h"

#include <algorithm>

namespace pdc {

bool isPlain(const onnx::NodeProto *node, std::string_view op, int inputs) {
  return node && node->domain().empty() && node->op_type() == op && node->input_size() == inputs;
}

std::set<std::string> dependenciesOf(const std::vector<FlatNode> &nodes,
                                     std::set<std::string> values) {
  auto isWanted = [&](const std::string &output) {
    return !output.empty() && values.contains(output);
  };
  for (auto node = nodes.rbegin(); node != nodes.rend(); ++node)
    if (std::ranges::any_of(node->proto.output(), isWanted))
      values.insert(node->proto.input().begin(), node->proto.input().end());
  return values;
}

/// The one value that all elements have.
static std::optional<double> uniformValue(const Initializer &initializer) {
  if (initializer.fill)
    return initializer.fill;
  std::string bytes = initializer.draw ? "" : readBytes(initializer);
  size_t width = bytesPerElement(initializer.type.element);
  for (size_t i = width; i < bytes.size(); ++i)
    if (bytes[i] != bytes[i - width])
      return std::nullopt;
  if (bytes.size() < width)
    return std::nullopt;
  bytes.resize(width);
  Initializer first{
      initializer.name, {initializer.type.element, {}}, {}, std::move(bytes), {}, 0, width};
  return readTensor(first).data.at(0);
}

TrainingValues::TrainingValues(const TrainingInfo &info, const std::vector<FlatNode> &nodes,
                               const Model &model)
    : info(info), model(model) {
  for (const ModelValue &input : model.inputs)
    inputs[input.name] = &input;
  std::set<std::string> wanted;
  for (const ModelValue &output : model.outputs)
    wanted.insert(output.name);
  for (const FlatNode &node : nodes) {
    for (int i = 0; i < node.proto.output_size(); ++i)
      if (!node.proto.output(i).empty())
        producers[node.proto.output(i)] = {&node.proto, i};
    if (const auto *loss = attributeOf(node.proto, "y");
        loss && node.proto.domain() == trainingDomain)
      wanted.insert(loss->s());
  }
  forward = dependenciesOf(nodes, std::move(wanted));
}

TrainingValues::Producer TrainingValues::producerOf(const std::string &value) const {
  auto found = producers.find(value);
  return found == producers.end() ? Producer() : found->second;
}

bool TrainingValues::isCounter(const std::string &variable) const {
  auto value = info.updates.find(variable);
  const onnx::NodeProto *add =
      value == info.updates.end() ? nullptr : producerOf(value->second).node;
  if (!isPlain(add, "Add", 2))
    return false;
  for (int i : {0, 1})
    if (add->input(i) == variable)
      if (std::optional<Tensor> step = findNumber(add->input(1 - i)); step && step->data[0] == 1)
        return true;
  return false;
}

/// A single number that the file holds.
std::optional<Tensor> TrainingValues::findNumber(const std::string &name) const {
  if (auto found = model.initializers.find(name); found != model.initializers.end()) {
    const TensorType &type = found->second.type;
    std::optional<double> value;
    if (type.elementCount() == 1)
      value = uniformValue(found->second);
    return value ? std::optional(Tensor{type, {*value}}) : std::nullopt;
  }
  const onnx::NodeProto *constant = producerOf(name).node;
  if (!isPlain(constant, "Constant", 0) || constant->attribute_size() != 1)
    return std::nullopt;
  const onnx::AttributeProto &value = constant->attribute(0);
  if (value.has_t()) {
    onnx::TensorProto copy = value.t();
    Tensor tensor = readTensor(takeInitializer(copy, describe(*constant), {}));
    return tensor.data.size() == 1 ? std::optional(tensor) : std::nullopt;
  }
  if (value.has_f())
    return Tensor::scalar(ElementType::f32, asWritten(value.f()));
  if (value.has_i())
    return Tensor::scalar(ElementType::i64, static_cast<double>(value.i()));
  return std::nullopt;
}

/// What the file or its user gives; nothing for what is computed.
std::optional<ModelValue> TrainingValues::findGiven(const std::string &name) const {
  if (auto input = inputs.find(name); input != inputs.end())
    return *input->second;
  TensorType type;
  if (auto found = model.initializers.find(name); found != model.initializers.end())
    type = found->second.type;
  else if (std::optional<Tensor> number = findNumber(name))
    type = number->type;
  else
    return std::nullopt;
  ModelValue value{name, type.element, {}};
  for (int64_t size : type.shape)
    value.shape.push_back({size, ""});
  return value;
}

/// What is given instead of a learning rate, or of a count; empty where it is one. Optimizers list
/// the two beside each other, and only their types tell them apart.
std::string TrainingValues::complaintOf(const std::string &name, bool isRate) const {
  std::optional<ModelValue> value = findGiven(name);
  if (!value)
    return name.empty() ? "left out" : "";
  bool isOne = value->shape.size() <= 1;
  for (const Dimension &dimension : value->shape)
    isOne &= dimension.value == 1;
  if (!isOne || (isRate ? !isFloatingPoint(value->element) : value->element != ElementType::i64))
    return typeText(*value);
  return isInput(name) && forward.contains(name) ? "an input that the forward graph reads" : "";
}

std::optional<double> TrainingValues::rateOf(const std::string &name,
                                             const std::string &where) const {
  std::string found = complaintOf(name, true);
  std::optional<double> rate;
  if (found.empty() && !isInput(name)) {
    std::optional<Tensor> number = findNumber(name);
    if (number && !info.updates.contains(name))
      rate = asWritten(static_cast<float>(number->data[0]));
    else
      found = "computed";
  }
  if (!found.empty())
    throw Error("training_info: " + where + ": the learning rate '" + name + "' is " + found +
                "; expected one floating-point number that the file holds, or an input that only "
                "updates read (pdc-run has --lr-schedule)");
  return rate;
}

double TrainingValues::countOf(const std::string &name, const std::string &where,
                               bool isUsed) const {
  std::string found = complaintOf(name, false);
  std::optional<Tensor> number;
  if (found.empty() && isUsed && !isInput(name)) {
    number = findNumber(name);
    if (!number || !isCounter(name))
      found = "not increased by 1 in each step";
  }
  if (!found.empty())
    throw Error("training_info: " + where + ": the count of updates '" + name + "' is " + found +
                "; expected one i64, an input that only updates read or a state variable that each "
                "step increases by 1");
  return number ? number->data[0] : 0;
}

double TrainingValues::stateOf(const std::string &name, const std::string &weight,
                               const std::string &where) const {
  auto found = model.initializers.find(name);
  if (found == model.initializers.end() || !info.updates.contains(name))
    throw Error("training_info: " + where + ": the state '" + name +
                "' must be an initializer with an update_binding");
  const TensorType &type = found->second.type, &expected = model.initializers.at(weight).type;
  if (type != expected)
    throw Error("training_info: " + where + ": the state '" + name + "' is " + type.toString() +
                ", expected " + expected.toString() + " as '" + weight +
                "'; correct it in the file");
  std::optional<double> value = uniformValue(found->second);
  if (!value)
    throw Error("training_info: " + where + ": the state '" + name +
                "' begins with several numbers, expected one for all elements");
  return *value;
}

} // namespace pdc
