#pragma once

#include "compiler/onnx/FlattenFunctions.h"
#include "compiler/onnx/Model.h"

namespace pdc {

/// Operators that ONNX Runtime puts into forward graphs, as the ones of ONNX that compute the same. What
/// is not known stays, to be refused by its name.
void replaceOrtOperators(std::vector<FlatNode> &nodes, Names &values, const Model &model);

} // namespace pdc
