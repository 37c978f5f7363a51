#pragma once

#include "compiler/onnx/FlattenFunctions.h"

namespace pdc {

/// What a Gradient node differentiates, and by which values.
struct DifferentiatedGraph {
  std::vector<std::string> xs;
  std::string y;
};

/// Reads the attributes of a Gradient and checks its inputs and outputs against them. Throws Error.
DifferentiatedGraph readGradientNode(const onnx::NodeProto &node);

/// Gives each Gradient the value that it differentiates as its last input, in place of attributes
/// that name it, so that it depends on it like any other node. Throws Error.
void connectGradients(std::vector<FlatNode> &nodes);

} // namespace pdc
