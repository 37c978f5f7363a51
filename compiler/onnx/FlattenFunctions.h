#pragma once

#include "compiler/Error.h"
#include "compiler/onnx/Names.h"
#include "compiler/onnx/Protobuf.h"

#include <map>
#include <memory>
#include <vector>

namespace pdc {

struct LoopBody;

/// A node of the one flat graph, with the version of its domain's operator set.
struct FlatNode {
  onnx::NodeProto proto;
  int opset = 0;                          ///< 0 where the model imports none of the node's domain
  std::map<std::string, int> stages = {}; ///< device configuration -> pipeline_stage
  /// An If whose branches are nodes beside it: its inputs are the condition, the outputs of the
  /// then branch and those of the else branch.
  bool selects = false;
  /// Of a Loop, which reads what its body reads too, behind its own inputs.
  std::shared_ptr<const LoopBody> body = nullptr;
  /// A Constant that was an initializer of a branch or body, and is trained as those of the graph
  /// are.
  bool isInitializer = false;
};

/// What a Loop repeats, sorted, by names that nothing else has.
struct LoopBody {
  std::vector<std::string> inputs, outputs;
  std::vector<FlatNode> nodes;
};

/// Where a node stands, for messages: its name, or what it computes when it has none.
std::string describe(const onnx::NodeProto &node);

/// A domain by one name: ONNX's own is "".
std::string canonicalDomain(const std::string &domain);

/// Takes the nodes out of the graph and replaces calls of the model's own functions by their
/// bodies: nodes and values of a body get the call's name before theirs. Both branches of an If
/// become nodes of the graph, since no node does more than compute its outputs; those of a Loop
/// wait in its body. `values` are the
/// names that are taken in the graph. Refuses recursion and expansions beyond all measure.
std::vector<FlatNode> flattenFunctions(onnx::ModelProto &model, Names &values);

} // namespace pdc
