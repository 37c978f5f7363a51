#pragma once

#include "compiler/onnx/Protobuf.h"

#include <optional>
#include <string>
#include <vector>

namespace pdc {

/// The attribute of that name, or nullptr.
const onnx::AttributeProto *attributeOf(const onnx::NodeProto &node, std::string_view name);

/// A whole number, or `otherwise` where it is left out.
int64_t integerOf(const onnx::NodeProto &node, std::string_view name, int64_t otherwise);

/// A number, or `otherwise` where it is left out; throws Error, naming the node, for anything else.
double numberOf(const onnx::NodeProto &node, std::string_view name,
                std::optional<double> otherwise);

/// A list of strings; empty where it is left out.
std::vector<std::string> namesOf(const onnx::NodeProto &node, std::string_view name);

// Gives the node an attribute that it has not.
void setInteger(onnx::NodeProto &node, const char *name, int64_t value);
void setIntegers(onnx::NodeProto &node, const char *name, const std::vector<int64_t> &values);
void setText(onnx::NodeProto &node, const char *name, const std::string &value);

/// The double that is written like the float: 0.1, not 0.10000000149. It rounds to the same float.
double asWritten(float number);

/// The shortest text that reads as the number.
std::string textOf(double number);

} // namespace pdc
