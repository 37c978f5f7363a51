#pragma once

#include "compiler/onnx/Binding.h"

namespace pdc {

/// The type of a value that a node of `nodes` (sorted, with all that they need) or an input makes,
/// by the operators' shape rules. Throws Error naming the node whose rule refuses.
TensorType typeOfValue(const Model &model, const Binding &binding,
                       const std::vector<const ModelNode *> &nodes, const std::string &value);

} // namespace pdc
