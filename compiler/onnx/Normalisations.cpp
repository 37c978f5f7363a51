#include "compiler/onnx/Normalisations.h"

#include "compiler/onnx/Makers.h"
#include "compiler/onnx/Names.h"
#include "compiler/onnx/Parameters.h"

#include <algorithm>

namespace pdc {

constexpr size_t kScale = 1, kMean = 3, kVariance = 4;

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
         model.metadata.changedBuffers.contains(node.inputs.at(kMean));
}

bool keepsStatistics(const Model &model, const ModelNode &node) {
  return model.initializers.contains(node.inputs.at(kMean));
}

/// Exporters write the mean of the very batch for a module that keeps no running one.
static bool hasMeanOfOthers(const Model &model, const Makers &makers, const ModelNode &node) {
  auto behindViews = [&](const std::string &value) {
    return makers.before(value,
                         {"ReduceMean", "Transpose", "Reshape", "Squeeze", "Unsqueeze", "Cast"});
  };
  return !keepsStatistics(model, node) &&
         behindViews(node.inputs.at(kMean)) != behindViews(node.inputs.at(0));
}

Normalisations chooseNormalisations(const Model &model, const std::vector<std::string> &freeze) {
  const std::vector<const ModelNode *> nodes = normalisationsOf(model);
  std::set<std::string> kept;
  for (const std::string &pattern : freeze)
    kept.merge(initializersMatching(model, pattern));
  Normalisations chosen;
  chosen.areTold = std::ranges::any_of(
      nodes, [&](const ModelNode *node) { return isToldToTrain(model, *node); });
  const Makers makers(model);
  for (const ModelNode *node : nodes) {
    if (!node->attributes.integer("training_mode", 0) && hasMeanOfOthers(model, makers, *node)) {
      chosen.given.insert(node->name);
      continue;
    }
    const bool trains =
        !chosen.areTold || isToldToTrain(model, *node) || !keepsStatistics(model, *node);
    (trains && !kept.contains(node->inputs.at(kMean)) ? chosen.active : chosen.frozen)
        .insert(node->name);
  }
  return chosen;
}

std::set<std::string> untrainedNormalisations(const Model &model,
                                              const std::vector<std::string> &freeze) {
  Normalisations chosen = chooseNormalisations(model, freeze);
  chosen.frozen.merge(chosen.given);
  return chosen.frozen;
}

namespace {

using Operand = std::pair<const ModelNode *, size_t>;

class StatisticsSeparation {
public:
  explicit StatisticsSeparation(Model &model) : model(model) {
    for (const auto &[name, initializer] : model.initializers)
      names.insert(name);
    for (const ModelValue &input : model.inputs)
      names.insert(input.name);
    for (const ModelNode &node : model.nodes) {
      names.insert(node.name);
      for (const std::string &output : node.outputs)
        names.insert(output);
      for (size_t i = 0; i < node.inputs.size(); ++i)
        readers[node.inputs[i]].push_back({&node, i});
    }
  }

  void run() {
    const std::set<std::string> active = chooseNormalisations(model, {}).active;
    for (ModelNode &node : model.nodes)
      for (size_t i : {kMean, kVariance})
        if (active.contains(node.name) && model.initializers.contains(node.inputs.at(i)) &&
            isShared(node, i))
          separate(node, i);
  }

private:
  /// Whether anything reads it that is not the same statistic of the same module.
  bool isShared(const ModelNode &node, size_t operand) const {
    return std::ranges::any_of(readers.at(node.inputs[operand]), [&](const Operand &reader) {
      return reader.second != operand || reader.first->op != node.op ||
             reader.first->inputs[kScale] != node.inputs[kScale];
    });
  }

  void separate(ModelNode &node, size_t operand) {
    std::string &name = node.inputs[operand];
    auto [own, isNew] = made.try_emplace({name, node.inputs[kScale]}, "");
    if (isNew) {
      own->second = names.fresh(nameFor(node, operand));
      Initializer copy = model.initializers.at(name);
      copy.name = own->second;
      copy.literal = false;
      model.initializers.emplace(own->second, std::move(copy));
      if (model.metadata.changedBuffers.contains(name))
        model.metadata.changedBuffers.insert(own->second);
    }
    name = own->second;
  }

  /// As PyTorch calls it beside the scale, where that is called as PyTorch calls it.
  static std::string nameFor(const ModelNode &node, size_t operand) {
    constexpr std::string_view weight = ".weight";
    const std::string &scale = node.inputs[kScale];
    const std::string module =
        scale.ends_with(weight) ? scale.substr(0, scale.size() - weight.size()) : node.name;
    return module + (operand == kMean ? ".running_mean" : ".running_var");
  }

  Model &model;
  Names names;
  std::map<std::string, std::vector<Operand>> readers; ///< in the file
  /// By what the file has and the scale.
  std::map<std::pair<std::string, std::string>, std::string> made;
};

} // namespace

void separateStatistics(Model &model) {
  if (!normalisationsOf(model).empty())
    StatisticsSeparation(model).run();
}

std::set<std::string> runningStatistics(const Model &model, const std::set<std::string> &frozen) {
  std::set<std::string> names;
  for (const ModelNode *node : normalisationsOf(model))
    for (size_t i = kMean; i < node->inputs.size() && !frozen.contains(node->name); ++i)
      if (model.initializers.contains(node->inputs[i]))
        names.insert(node->inputs[i]);
  return names;
}

} // namespace pdc
