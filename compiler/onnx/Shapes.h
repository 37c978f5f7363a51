#pragma once

#include "compiler/onnx/Binding.h"

namespace pdc {

/// The type of a value that a node of `nodes` (sorted, with all that they need) or an input makes,
/// by the operators' shape rules. Throws Error naming the node whose rule refuses.
TensorType typeOfValue(const Model &model, const Binding &binding,
                       const std::vector<const ModelNode *> &nodes, const std::string &value);

/// The dimensions [samples, positions...] that a Reshape or Flatten made the rows of `value` of,
/// such as the scores of all tokens; empty where rows are samples, or where it cannot be told.
std::vector<int64_t> positionsOfRows(const Model &model, const Binding &binding,
                                     const std::vector<const ModelNode *> &nodes,
                                     const std::string &value);

} // namespace pdc
