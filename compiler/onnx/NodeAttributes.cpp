#include "compiler/onnx/NodeAttributes.h"

#include "compiler/onnx/FlattenFunctions.h"

#include <charconv>
#include <cmath>

namespace pdc {

const onnx::AttributeProto *attributeOf(const onnx::NodeProto &node, std::string_view name) {
  for (const onnx::AttributeProto &attribute : node.attribute())
    if (attribute.name() == name)
      return &attribute;
  return nullptr;
}

int64_t integerOf(const onnx::NodeProto &node, std::string_view name, int64_t otherwise) {
  const onnx::AttributeProto *attribute = attributeOf(node, name);
  return attribute ? attribute->i() : otherwise;
}

double numberOf(const onnx::NodeProto &node, std::string_view name,
                std::optional<double> otherwise) {
  const onnx::AttributeProto *attribute = attributeOf(node, name);
  if (attribute && attribute->has_f() && !std::isnan(attribute->f()))
    return asWritten(attribute->f());
  if (attribute || !otherwise)
    throw Error(describe(node) + ": attribute '" + std::string(name) + "' must be a number");
  return *otherwise;
}

std::vector<std::string> namesOf(const onnx::NodeProto &node, std::string_view name) {
  const onnx::AttributeProto *attribute = attributeOf(node, name);
  if (!attribute)
    return {};
  return {attribute->strings().begin(), attribute->strings().end()};
}

static onnx::AttributeProto &newAttribute(onnx::NodeProto &node, const char *name,
                                          onnx::AttributeProto::AttributeType type) {
  onnx::AttributeProto &attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(type);
  return attribute;
}

void setInteger(onnx::NodeProto &node, const char *name, int64_t value) {
  newAttribute(node, name, onnx::AttributeProto::INT).set_i(value);
}

void setIntegers(onnx::NodeProto &node, const char *name, const std::vector<int64_t> &values) {
  onnx::AttributeProto &list = newAttribute(node, name, onnx::AttributeProto::INTS);
  list.mutable_ints()->Assign(values.begin(), values.end());
}

void setText(onnx::NodeProto &node, const char *name, const std::string &value) {
  newAttribute(node, name, onnx::AttributeProto::STRING).set_s(value);
}

double asWritten(float number) {
  char text[32];
  auto end = std::to_chars(text, text + sizeof text, number).ptr;
  double result = number;
  std::from_chars(text, end, result);
  return result;
}

std::string textOf(double number) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, number).ptr};
}

} // namespace pdc
