#pragma once

#include "compiler/onnx/FlattenFunctions.h"
#include "compiler/onnx/Model.h"

namespace pdc {

/// Exporters write a split whose parts are taken one by one, and tensors that are joined, as
/// sequences. Sequences of which a graph says how long they are, and which element is read where,
/// become tensors: Split or Slice, and Concat. `nodes` are sorted; others stay as they are. Throws
/// Error, naming the node, where an element is read that is not there; where only shapes can tell,
/// the Slice in its place refuses to be empty.
void replaceSequences(std::vector<FlatNode> &nodes, Names &values, const onnx::GraphProto &graph,
                      const Model &model);

} // namespace pdc
