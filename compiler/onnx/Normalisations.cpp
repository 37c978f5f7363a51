#include "compiler/onnx/Normalisations.h"

#include "compiler/onnx/Makers.h"
#include "compiler/onnx/Names.h"
#include "compiler/onnx/Parameters.h"

#include <algorithm>
#include <optional>

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

bool areGivenDetached(const Model &model) { return model.producer == "pytorch"; }

namespace {

/// What the statistics of a model's normalisations are made of.
class StatisticsOrigin {
public:
  explicit StatisticsOrigin(const Model &model) : model(model), makers(model) {
    for (const ModelValue &input : model.inputs)
      ofInputs.insert(input.name);
    for (const ModelNode &node : model.nodes)
      if (std::ranges::any_of(node.inputs,
                              [&](const std::string &value) { return ofInputs.contains(value); }))
        ofInputs.insert(node.outputs.begin(), node.outputs.end());
  }

  /// By a node, of the model's inputs: running statistics are tensors of the file, or made of some.
  bool isGiven(const ModelNode &node) const {
    auto isComputed = [&](size_t i) {
      return makers.of(node.inputs.at(i)) && ofInputs.contains(node.inputs[i]);
    };
    return isComputed(kMean) || isComputed(kVariance);
  }

  /// ReduceMean(x) and ReduceMean((x - ReduceMean(x))^2) over all but the channels of what is
  /// normalised.
  bool isOfBatch(const ModelNode &node) const {
    const ModelNode *squares = makers.of(plain(node.inputs.at(kVariance)), "ReduceMean");
    const ModelNode *square = squares ? makers.of(plain(squares->inputs.at(0)), "Mul") : nullptr;
    if (!square || square->inputs.at(0) != square->inputs.at(1) || !isOverBatch(*squares))
      return false;
    const ModelNode *centred = makers.of(plain(square->inputs[0]), "Sub");
    const std::string &x = plain(node.inputs[0]);
    return centred && plain(centred->inputs.at(0)) == x && isMeanOf(centred->inputs.at(1), x) &&
           isMeanOf(node.inputs[kMean], x);
  }

private:
  const std::string &plain(const std::string &value) const {
    return makers.before(value, {"Identity", "Cast"});
  }

  bool isMeanOf(const std::string &value, const std::string &x) const {
    const ModelNode *mean = makers.of(plain(value), "ReduceMean");
    return mean && plain(mean->inputs.at(0)) == x && isOverBatch(*mean);
  }

  /// Over dimensions 0, 2, 3 and so on. That these are all, the shape of what is left says.
  bool isOverBatch(const ModelNode &mean) const {
    auto axes =
        mean.inputs.size() > 1 ? model.initializers.find(mean.inputs[1]) : model.initializers.end();
    if (axes == model.initializers.end())
      return false;
    std::vector<double> found = readTensor(axes->second).data;
    std::ranges::sort(found);
    for (size_t i = 0; i < found.size(); ++i)
      if (found[i] != static_cast<double>(i ? i + 1 : 0))
        return false;
    return !found.empty();
  }

  const Model &model;
  Makers makers;
  std::set<std::string> ofInputs; ///< values that depend on one
};

} // namespace

Normalisations chooseNormalisations(const Model &model, const std::vector<std::string> &freeze) {
  const std::vector<const ModelNode *> nodes = normalisationsOf(model);
  std::set<std::string> kept;
  for (const std::string &pattern : freeze)
    kept.merge(initializersMatching(model, pattern));
  Normalisations chosen;
  chosen.areTold = std::ranges::any_of(
      nodes, [&](const ModelNode *node) { return isToldToTrain(model, *node); });
  std::optional<StatisticsOrigin> origin;
  for (const ModelNode *node : nodes) {
    const bool isTold = isToldToTrain(model, *node);
    if (!isTold && !(keepsStatistics(model, *node) &&
                     model.initializers.contains(node->inputs.at(kVariance)))) {
      if (!origin)
        origin.emplace(model);
      const bool isOfBatch = origin->isOfBatch(*node);
      if (isOfBatch || origin->isGiven(*node)) {
        (isOfBatch ? chosen.active : chosen.given).insert(node->name);
        continue;
      }
    }
    const bool trains = !chosen.areTold || isTold;
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
