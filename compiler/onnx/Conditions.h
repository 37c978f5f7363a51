#pragma once

#include "compiler/onnx/Binding.h"
#include "compiler/onnx/Names.h"

namespace pdc {

struct FlatNode;
class SequenceReplacement;

/// What the decisions between the branches of a model's Ifs, and how often its Loops are repeated,
/// were made by.
struct ConditionGraph {
  struct Decision {
    std::string node, condition;
    double value = 0;
  };
  Model model; ///< the nodes that the conditions depend on
  std::vector<Decision> decisions;
};

/// Leaves of each If the branch that shapes and constants decide, and of each Loop as many copies
/// of its body as they do; sequences become tensors on the way. `nodes` are sorted; `dimensions`
/// are numbers of named dimensions; those without one are taken for numbers that no network has,
/// and what depends on them is held in `model.conditions`. Throws Error, naming the node, for what
/// is known only when the network runs.
void decideConditions(std::vector<FlatNode> &nodes, Names &values, const ModelFolder &folder,
                      const std::map<std::string, int64_t> &dimensions,
                      SequenceReplacement &sequences, Model &model);

/// Throws Error where these dimensions decide otherwise.
void checkConditions(const Model &model, const Binding &binding);

} // namespace pdc
