#include "compiler/onnx/Parameters.h"
#include "compiler/onnx/Makers.h"
#include "compiler/onnx/NodeAttributes.h"
#include "compiler/onnx/Normalisations.h"
#include "compiler/onnx/TensorNames.h"
#include "compiler/onnx/WeightPlaces.h"

#include <fnmatch.h>

#include <algorithm>

namespace pdc {

namespace {

/// A BatchNormalization that is written out as arithmetic has four buffers, as DETR's frozen ones
/// do: `statistics` are those of nodes.
bool isOfWrittenNormalisation(const Model &model, const std::string &name,
                              const std::set<std::string> &statistics) {
  const std::string layer = name.substr(0, name.rfind('.') + 1), own = name.substr(layer.size());
  const std::string mean = layer + "running_mean";
  return (own == "weight" || own == "bias" || own == "running_mean" || own == "running_var") &&
         model.initializers.contains(mean) && model.initializers.contains(layer + "running_var") &&
         !statistics.contains(mean);
}

/// A number without dimensions that has a name of the exporter's own; those of the network's
/// operations, such as exp_1, may be what is left of a parameter.
bool isOfExporter(const Model &model, const Initializer &initializer) {
  const std::string &name = initializer.name;
  return !model.metadata.kinds.empty() && initializer.type.shape.empty() &&
         (name.starts_with("val_") || name.starts_with("scalar_tensor")) &&
         isWrittenNumber(model, initializer);
}

/// Whether a tensor of one element is a constant rather than a layer's only weight or a learned
/// factor. PyTorch's exporter writes none of the zeros that a sequence begins with as an
/// initializer; others write all numbers so.
bool isNumber(const Model &model, const Initializer &initializer, const WeightPlaces &places) {
  const std::string &name = initializer.name;
  if (isOfExporter(model, initializer))
    return true;
  if (isWeightName(name) || isScaleName(name))
    return initializer.type.shape.empty() && !places.layers.contains(name);
  if (places.repeated.contains(name) && model.producer != "pytorch" &&
      numberNamed(model, name) == 0.0)
    return true;
  const bool writesFactors = model.producer == "tf2onnx" || model.producer == "PaddlePaddle";
  return !places.layers.contains(name) &&
         (initializer.type.shape.empty() || places.settings.contains(name) ||
          (writesFactors && places.factors.contains(name)));
}

/// Why an operand is taken for something else than a parameter; empty where it is one. The exporter
/// knows what its network trains. Of what it folded, factors of products are weights in another
/// form; terms are tables and masks as often.
std::string reasonAgainst(const Model &model, const Initializer &initializer,
                          const WeightPlaces &places, const std::set<std::string> &statistics) {
  const std::string &name = initializer.name;
  const bool isTerm = places.terms.contains(name);
  const ExporterMetadata &metadata = model.metadata;
  if (const std::optional<ExportedKind> kind = metadata.kindOf(name))
    return kind == ExportedKind::parameter          ? ""
           : kind == ExportedKind::constant         ? "a constant, by its exporter"
           : metadata.changedBuffers.contains(name) ? "a buffer, which PyTorch's step changes and "
                                                      "pdc leaves as the file has it"
                                                    : "a buffer, by its exporter";
  if (metadata.ofNoParameter.contains(name))
    return "made by its exporter";
  const bool isImage = places.images.contains(name) && !places.layers.contains(name);
  const bool isFolded = metadata.folded.contains(name) || name.find("::") != name.npos;
  if ((metadata.folded.contains(name) && isTerm) || (isFolded && isImage))
    return "made by its exporter";
  if (initializer.literal)
    return "in a Constant node";
  if (isConstantName(name))
    return "named as a constant";
  if (isBufferName(name))
    return "named as a mask or table";
  if (isOfWrittenNormalisation(model, name, statistics))
    return "of a BatchNormalization that is written out, as frozen ones are";
  if (!places.hold(name) && !(places.changed.contains(name) && isWeightName(name)))
    return "where weights seldom stand";
  if (isTerm && kindOfMask(initializer) == MaskKind::hides)
    return "a mask, by what it holds";
  const std::vector<int64_t> &shape = initializer.type.shape;
  if (places.states.contains(name) && shape.size() == 3 && shape[1] != 1)
    return "a state of each sample";
  if (!isTerm && !isImage && !places.layers.contains(name) && places.picked.contains(name))
    return "a table that elements are picked from";
  if (initializer.type.elementCount() == 1 && isNumber(model, initializer, places))
    return "a single number";
  return "";
}

/// Of a layer, as weights are.
bool isMatrix(const Initializer &initializer, const WeightPlaces &places) {
  return initializer.type.rank() > 1 && initializer.type.elementCount() > 1 &&
         places.layers.contains(initializer.name) && !places.states.contains(initializer.name);
}

/// Of what is not trained. A number of the exporter's own is no news, unless it is all that is left
/// of a parameter.
bool isToldOf(const Model &model, const Initializer &initializer, const WeightPlaces &places) {
  return initializer.literal ? isMatrix(initializer, places)
                             : !isOfExporter(model, initializer) ||
                                   model.metadata.foldedFrom.contains(initializer.name);
}

struct Choice {
  std::set<std::string> parameters;
  std::map<std::string, std::string> reasonsAgainst;
};

/// Beside what stands where weights do, whatever else has several elements is to be told.
Choice chooseByRule(const Model &model, const Loss &loss) {
  const std::vector<const ModelNode *> nodes = nodesOfLoss(model, loss);
  const WeightPlaces places(nodes);
  std::set<std::string> read;
  for (const ModelNode *node : nodes)
    read.insert(node->inputs.begin(), node->inputs.end());
  const std::set<std::string> statistics = runningStatistics(model);
  Choice choice;
  for (const auto &[name, initializer] : model.initializers) {
    const bool isParameter = model.metadata.kindOf(name) == ExportedKind::parameter;
    const bool isOperand =
        places.hold(name) || (places.others.contains(name) && initializer.type.elementCount() > 1);
    if (!isFloatingPoint(initializer.type.element) || statistics.contains(name) ||
        !(isOperand || (isParameter && read.contains(name))))
      continue;
    if (std::string reason = reasonAgainst(model, initializer, places, statistics); reason.empty())
      choice.parameters.insert(name);
    else if (isToldOf(model, initializer, places))
      choice.reasonsAgainst[name] = reason;
  }
  return choice;
}

/// A pattern that is an initializer's name, such as w[0], matches that one alone.
bool matches(const Model &model, const std::string &pattern, const std::string &name) {
  return model.initializers.contains(pattern) ? name == pattern
                                              : fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

std::set<std::string> trainable(const Model &model, const std::string &pattern) {
  std::set<std::string> names = initializersMatching(model, pattern);
  for (const std::string &statistic : runningStatistics(model))
    names.erase(statistic);
  if (names.empty())
    throw Error("pattern '" + pattern +
                "' matches whole numbers and running statistics alone, which are no parameters; "
                "`--stop-after=import` lists what there is");
  return names;
}

/// What the file trains must be something that its loss can train. An updated integer has no
/// gradient, and what the loss does not read may not even be imported.
void checkTrained(const Model &model, const Loss &loss, const std::set<std::string> &parameters) {
  std::set<std::string> read = {loss.prediction, loss.labels};
  for (const ModelNode *node : nodesOfLoss(model, loss))
    read.insert(node->inputs.begin(), node->inputs.end());
  for (const std::string &name : parameters) {
    auto found = model.initializers.find(name);
    if (found != model.initializers.end() && !isFloatingPoint(found->second.type.element))
      throw Error("the file trains '" + name + "', which is " + found->second.type.toString() +
                  ", expected floating point; name what is trained with --train PATTERN");
    if (found == model.initializers.end() || !read.contains(name))
      throw Error("the file trains '" + name +
                  "', which the loss does not read; name what is trained "
                  "with --train PATTERN");
  }
}

/// Whether the node takes from another value the one that it is added to.
bool isDifference(const ModelNode *node, const std::string &value) {
  return node && node->op == "Sub" && node->inputs[1] == value;
}

/// A pattern that matches no initializer.
[[noreturn]] void refuseUnknown(const Model &model, const std::string &pattern) {
  for (const std::string &lost : model.metadata.lostParameters)
    if (matches(model, pattern, lost))
      throw Error("pattern '" + pattern +
                  "' matches no initializer: the exporter has left none of '" + lost +
                  "'; export the network with optimize=False");
  throw Error("pattern '" + pattern + "' matches no initializer; `--stop-after=import` lists them");
}

} // namespace

std::set<std::string> initializersMatching(const Model &model, const std::string &pattern) {
  std::set<std::string> names;
  bool isKnown = false;
  for (const auto &[name, initializer] : model.initializers)
    if (matches(model, pattern, name)) {
      isKnown = true;
      if (isFloatingPoint(initializer.type.element))
        names.insert(name);
    }
  if (!isKnown)
    refuseUnknown(model, pattern);
  return names;
}

bool isWrittenNumber(const Model &model, const Initializer &initializer) {
  const std::string &name = initializer.name;
  if (const ExporterMetadata &metadata = model.metadata; !metadata.kinds.empty())
    return metadata.kindOf(name).value_or(ExportedKind::constant) == ExportedKind::constant;
  // What Keras gives no dimensions is no weight, unless it is read as a variable.
  const bool isOfKeras = model.producer == "tf2onnx" && initializer.type.shape.empty() &&
                         name.find("ReadVariableOp") == name.npos;
  return initializer.literal || isConstantName(name) || isOfKeras;
}

std::string chooseOptimizer(const Model &model, const std::string &option) {
  if (!option.empty())
    return option;
  return model.training ? model.training->optimizer : "sgd,lr=0.01";
}

/// A pattern that matches this name only.
static std::string patternOf(const std::string &name) {
  std::string pattern;
  for (char c : name) {
    if (std::string_view("*?[]{}\\").find(c) != std::string_view::npos)
      pattern += '\\';
    pattern += c;
  }
  return pattern;
}

UpdateGroups chooseGroups(const Model &model, const std::string &optimizer,
                          const std::set<std::string> &parameters, const UpdateGroups &given) {
  UpdateGroups groups;
  if (optimizer.empty() && model.training) {
    for (const std::string &name : model.training->undecayed)
      if (parameters.contains(name))
        groups.noDecay.push_back(patternOf(name));
    for (const auto &[name, factor] : model.training->rateFactors)
      if (parameters.contains(name))
        groups.lrScale.push_back(patternOf(name) + "=" + textOf(factor));
  }
  auto asPattern = [&](const std::string &text) {
    return parameters.contains(text) ? patternOf(text) : text;
  };
  for (const std::string &pattern : given.noDecay)
    groups.noDecay.push_back(asPattern(pattern));
  for (const std::string &text : given.lrScale) {
    const size_t end = text.rfind('=');
    groups.lrScale.push_back(asPattern(text.substr(0, end)) + text.substr(end));
  }
  return groups;
}

/// Whether patterns name all that is trained: those behind a plus only add to it.
static bool nameAll(const std::vector<std::string> &patterns) {
  return std::ranges::any_of(patterns,
                             [](const auto &pattern) { return !pattern.starts_with('+'); });
}

/// A file whose first output is no score, or that holds no weight.
[[noreturn]] static void refuseUntrained(const Model &model, const Loss &loss) {
  const std::vector<const ModelNode *> nodes = nodesOfLoss(model, loss);
  auto isWeight = [&](const std::string &name) {
    auto found = model.initializers.find(name);
    return found != model.initializers.end() &&
           (!found->second.literal || found->second.type.rank() > 1) &&
           isFloatingPoint(found->second.type.element);
  };
  if (std::ranges::any_of(nodes, [&](const ModelNode *node) {
        return std::ranges::any_of(node->inputs, isWeight);
      }))
    throw Error(model.name +
                ": no initializer is left to train; name those that are with --train PATTERN");
  auto other = std::ranges::find_if(
      model.outputs, [&](const ModelValue &output) { return output.name != loss.prediction; });
  throw Error(
      model.name + ": '" + loss.prediction + "', which the loss judges, depends on no weight; " +
      (other == model.outputs.end()
           ? "export the model with an output that does"
           : "name an output that does with --loss, as in --loss cross_entropy:" + other->name));
}

std::set<std::string> chooseParameters(const Model &model, const Loss &loss,
                                       const ParameterPatterns &patterns) {
  std::set<std::string> parameters;
  if (!nameAll(patterns.train))
    parameters = model.training ? model.training->parameters : chooseByRule(model, loss).parameters;
  for (const std::string &pattern : patterns.train)
    parameters.merge(trainable(model, pattern.starts_with('+') ? pattern.substr(1) : pattern));
  for (const std::string &pattern : patterns.freeze)
    for (const std::string &name : initializersMatching(model, pattern))
      parameters.erase(name);
  if (patterns.train.empty() && model.training)
    checkTrained(model, loss, parameters);
  if (parameters.empty())
    refuseUntrained(model, loss);
  return parameters;
}

std::map<std::string, std::string> reasonsAgainstTraining(const Model &model, const Loss &loss,
                                                          const ParameterPatterns &patterns) {
  if (nameAll(patterns.train) || model.training)
    return {};
  std::map<std::string, std::string> reasons = chooseByRule(model, loss).reasonsAgainst;
  for (const std::string &pattern : patterns.train)
    std::erase_if(
        reasons, [&](const auto &entry) { return matches(model, pattern.substr(1), entry.first); });
  for (const std::string &pattern : patterns.freeze)
    std::erase_if(reasons, [&](const auto &entry) { return matches(model, pattern, entry.first); });
  return reasons;
}

std::vector<std::string> undoneDifferences(const Model &model) {
  const Makers makers(model);
  std::vector<std::string> names;
  for (const ModelNode &node : model.nodes)
    if (node.op == "Add" && (isDifference(makers.of(node.inputs[0]), node.inputs[1]) ||
                             isDifference(makers.of(node.inputs[1]), node.inputs[0])))
      names.push_back(node.name);
  return names;
}

} // namespace pdc
