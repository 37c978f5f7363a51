#include "compiler/onnx/Normalisations.h"

#include "compiler/onnx/Parameters.h"

#include <algorithm>

namespace pdc {

static std::vector<const ModelNode *> normalisationsOf(const Model &model) {
  std::vector<const ModelNode *> nodes;
  for (const ModelNode &node : model.nodes)
    if (node.op == "BatchNormalization")
      nodes.push_back(&node);
  return nodes;
}

/// PyTorch's newer exporter drops the attribute, but says which buffers a step of the network
/// changes.
static bool isToldToTrain(const Model &model, const ModelNode &node) {
  return node.attributes.integer("training_mode", 0) ||
         model.metadata.changedBuffers.contains(node.inputs.at(3));
}

Normalisations chooseNormalisations(const Model &model, const std::vector<std::string> &freeze) {
  const std::vector<const ModelNode *> nodes = normalisationsOf(model);
  std::set<std::string> kept;
  for (const std::string &pattern : freeze)
    kept.merge(initializersMatching(model, pattern));
  Normalisations chosen;
  chosen.areTold = std::ranges::any_of(
      nodes, [&](const ModelNode *node) { return isToldToTrain(model, *node); });
  for (const ModelNode *node : nodes) {
    const bool trains = !chosen.areTold || isToldToTrain(model, *node);
    (trains && !kept.contains(node->inputs.at(3)) ? chosen.active : chosen.frozen)
        .insert(node->name);
  }
  return chosen;
}

std::set<std::string> runningStatistics(const Model &model, const std::set<std::string> &frozen) {
  std::set<std::string> names;
  for (const ModelNode *node : normalisationsOf(model))
    for (size_t i = 3; i < node->inputs.size() && !frozen.contains(node->name); ++i)
      if (model.initializers.contains(node->inputs[i]))
        names.insert(node->inputs[i]);
  return names;
}

} // namespace pdc
