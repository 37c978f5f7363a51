#pragma once

#include "compiler/onnx/Protobuf.h"

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace pdc {

using Renaming = std::function<std::string(const std::string &)>;

/// An If as the specification writes it, with both its branches.
bool hasBranches(const onnx::NodeProto &node);

/// A Loop as the specification writes it, with its body.
bool hasBody(const onnx::NodeProto &node);

/// Gives new names to what the node's own graphs read of the graph around them. What they name
/// themselves stays.
void renameCaptured(onnx::NodeProto &node, const Renaming &rename);

/// Replaces attributes of nodes in the node's own graphs that refer to those of a function's call.
void giveAttributes(onnx::NodeProto &node,
                    const std::map<std::string, onnx::AttributeProto> &given);

/// A graph that was taken out of a node.
struct Branch {
  std::vector<onnx::NodeProto> initializers; ///< each as a Constant node
  std::vector<onnx::NodeProto> nodes;
  std::vector<std::string> outputs;
};

/// Takes a branch apart: its values get names by `rename`. Throws Error for sparse initializers.
Branch takeBranch(onnx::GraphProto &branch, const Renaming &rename);

} // namespace pdc
