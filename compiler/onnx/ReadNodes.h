#pragma once

#include "compiler/onnx/FlattenFunctions.h"
#include "compiler/onnx/Model.h"

namespace pdc {

/// Turns sorted protobuf nodes into the model's nodes: attributes checked, constants and
/// ConstantOfShape made initializers, opset differences removed by the operators' own rules.
/// `values` are all names of values. Reads and extends `model.initializers`, appends to
/// `model.nodes`.
void readNodes(std::vector<FlatNode> nodes, Names &values, const std::filesystem::path &folder,
               Model &model);

} // namespace pdc
