#include "compiler/onnx/Loss.h"

#include "compiler/onnx/Binding.h"
#include "compiler/onnx/ClassScores.h"
#include "compiler/onnx/Makers.h"

#include <algorithm>

namespace pdc {

namespace {

constexpr std::pair<std::string_view, LossKind> kinds[] = {
    {"cross_entropy", LossKind::crossEntropy},
    {"nll", LossKind::nll},
    {"mse", LossKind::mse},
    {"l1", LossKind::l1},
    {"bce_with_logits", LossKind::bceWithLogits},
    {"output", LossKind::output}};

LossKind kindNamed(std::string_view text) {
  std::string list;
  for (auto [name, kind] : kinds) {
    if (name == text)
      return kind;
    list += (list.empty() ? "" : ", ") + std::string(name);
  }
  throw Error("loss '" + std::string(text) + "' is unknown; expected one of " + list);
}

const ModelNode *producerOf(const Model &model, const std::string &value) {
  for (const ModelNode &node : model.nodes)
    if (!node.outputs.empty() && node.outputs[0] == value)
      return &node;
  return nullptr;
}

/// Whether a value is of floating-point numbers, as far as the nodes before it say.
bool isReal(const Model &model, const std::string &name, int depth = 0) {
  static constexpr std::string_view passed[] = {
      "Add",       "Concat", "Div",   "Expand",  "Flatten", "Gather",    "Identity", "Mul",
      "Neg",       "Reshape", "Slice", "Squeeze", "Sub",     "Transpose", "Unsqueeze"};
  if (const ModelValue *input = valueNamed(model.inputs, name))
    return isFloatingPoint(input->element);
  if (auto tensor = model.initializers.find(name); tensor != model.initializers.end())
    return isFloatingPoint(tensor->second.type.element);
  const ModelNode *node = producerOf(model, name);
  if (!node || depth > 32)
    return false;
  if (node->op == "Cast")
    return node->attributes.integer("to", 0) == 1;
  if (node->op == "Softmax" || node->op == "Sigmoid" || node->op == "Exp")
    return true;
  const bool isChoice = node->op == "Where" || node->op == "OneHot" || node->op == "CastLike";
  if (isChoice || std::ranges::count(passed, node->op) > 0)
    return isReal(model, node->inputs.at(isChoice ? node->inputs.size() - 1 : 0), depth + 1);
  return false;
}

/// What is averaged by classes. Labels that are shares of them make an output like any other, and
/// so does a sum.
bool isLossNode(const Model &model, const ModelNode *node) {
  return node && node->attributes.string("reduction", "mean") != "sum" &&
         (node->op == "SoftmaxCrossEntropyLoss" || node->op == "NegativeLogLikelihoodLoss") &&
         !isReal(model, node->inputs.at(1));
}

/// The graph's own mean over samples, taken apart into sum and weight.
Loss lossOfNode(const ModelNode &node) {
  std::string where = "node '" + node.name + "' (" + node.op + ")";
  std::string reduction = node.attributes.string("reduction", "mean");
  if (reduction != "mean")
    throw Error(where + ": reduction '" + reduction +
                "' cannot be the loss that is trained; expected 'mean'");
  Loss loss;
  loss.kind = node.op == "SoftmaxCrossEntropyLoss" ? LossKind::crossEntropy : LossKind::nll;
  loss.node = node.name;
  loss.prediction = node.inputs.at(0);
  loss.labels = node.inputs.at(1);
  loss.classWeights = node.inputs.size() > 2 ? node.inputs[2] : "";
  loss.ignoreIndex = node.attributes.integer("ignore_index", -100);
  return loss;
}

std::string freshLabels(const Model &model) {
  std::string name = "labels";
  for (int i = 2; model.initializers.contains(name); ++i)
    name = "labels_" + std::to_string(i);
  return name;
}

/// Names may hold colons, so OUTPUT is the longest part that is a value of the graph.
std::pair<std::string, std::string> splitNames(const Model &model, const std::string &text) {
  if (isValueOfGraph(model, text))
    return {text, ""};
  for (size_t at = text.rfind(':'); at != std::string::npos && at > 0; at = text.rfind(':', at - 1))
    if (isValueOfGraph(model, text.substr(0, at)))
      return {text.substr(0, at), text.substr(at + 1)};
  std::string outputs;
  for (const ModelValue &output : model.outputs)
    outputs += (outputs.empty() ? "'" : ", '") + output.name + "'";
  throw Error("loss: the model has no value '" + text + "'; its outputs are " + outputs);
}

Loss lossOfFile(const Model &model, const std::string &value) {
  if (const ModelNode *node = producerOf(model, value); isLossNode(model, node))
    return lossOfNode(*node);
  Loss loss;
  loss.kind = LossKind::output;
  loss.prediction = value;
  return loss;
}

Loss defaultLoss(const Model &model) {
  if (model.training)
    return lossOfFile(model, model.training->loss);
  for (const ModelValue &output : model.outputs)
    if (const ModelNode *node = producerOf(model, output.name); isLossNode(model, node))
      return lossOfNode(*node);
  const ModelValue &first = model.outputs.at(0);
  Loss loss;
  if (first.isNumber && isFloatingPoint(first.element))
    loss.kind = LossKind::output;
  loss.prediction = first.name;
  return loss;
}

Loss lossOfOption(const Model &model, const std::string &option) {
  Loss loss;
  size_t colon = option.find(':');
  loss.kind = kindNamed(option.substr(0, colon));
  loss.prediction = model.outputs.at(0).name;
  if (colon != std::string::npos)
    std::tie(loss.prediction, loss.labels) = splitNames(model, option.substr(colon + 1));
  const ModelNode *node = producerOf(model, loss.prediction);
  if (!isLossNode(model, node))
    return loss;
  Loss own = lossOfNode(*node);
  const bool isOwn = loss.kind == LossKind::output || loss.kind == own.kind;
  if (!isOwn || (!loss.labels.empty() && loss.labels != own.labels))
    throw Error("--loss " + option + ": '" + loss.prediction + "' is a loss already, " +
                toString(own) + " (node '" + node->name + "'); say --loss output to train it, or " +
                option.substr(0, colon) + ":SCORES:LABELS for a loss of other values");
  return own;
}

} // namespace

bool isValueOfGraph(const Model &model, const std::string &name) {
  auto isNamed = [&](const auto &value) { return value.name == name; };
  auto makes = [&](const ModelNode &node) {
    return std::find(node.outputs.begin(), node.outputs.end(), name) != node.outputs.end();
  };
  return !name.empty() && (std::any_of(model.inputs.begin(), model.inputs.end(), isNamed) ||
                           std::any_of(model.nodes.begin(), model.nodes.end(), makes));
}

Loss chooseLoss(const Model &model, const std::string &option) {
  Loss loss = option.empty() ? defaultLoss(model) : lossOfOption(model, option);
  if (loss.labels.empty() && loss.kind != LossKind::output)
    loss.labels = freshLabels(model);
  if (loss.node.empty())
    chooseScores(model, loss);
  if (!isValueOfGraph(model, loss.prediction))
    throw Error("loss: '" + loss.prediction + "' is computed from no input");
  return loss;
}

std::string toString(const Loss &loss) {
  std::string text;
  for (auto [name, kind] : kinds)
    if (kind == loss.kind)
      text = name;
  text += " of '" + loss.prediction + "'";
  if (loss.classesLast)
    text += ", classes in its last dimension,";
  if (loss.kind != LossKind::output)
    text += " with labels '" + loss.labels + "'";
  return text;
}

/// The nodes that these values depend on, in order; the values of all become part of `needed`.
static std::vector<const ModelNode *> nodesBehind(const Model &model,
                                                  std::set<std::string> &needed) {
  needed.erase("");
  std::vector<const ModelNode *> nodes;
  for (auto node = model.nodes.rbegin(); node != model.nodes.rend(); ++node) {
    auto isNeeded = [&](const std::string &output) { return needed.contains(output); };
    if (std::none_of(node->outputs.begin(), node->outputs.end(), isNeeded))
      continue;
    needed.insert(node->inputs.begin(), node->inputs.end());
    needed.erase("");
    nodes.push_back(&*node);
  }
  std::reverse(nodes.begin(), nodes.end());
  return nodes;
}

std::set<std::string> labelInputs(const Model &model, const Loss &loss) {
  std::set<std::string> labels = {loss.labels}, prediction = {loss.prediction}, found;
  if (!hasClasses(loss))
    return found;
  nodesBehind(model, labels);
  nodesBehind(model, prediction);
  for (const ModelValue &input : model.inputs)
    if (labels.contains(input.name) && !prediction.contains(input.name) &&
        !isFloatingPoint(input.element))
      found.insert(input.name);
  return found;
}

std::vector<const ModelNode *> nodesOfLoss(const Model &model, const Loss &loss) {
  std::set<std::string> needed = {loss.prediction, loss.labels, loss.classWeights};
  if (loss.kind == LossKind::none)
    for (const ModelValue &output : model.outputs)
      needed.insert(output.name);
  return nodesBehind(model, needed);
}

/// A sum, and not of means.
static bool addsUp(const Makers &makers, const ModelNode &node) {
  static const std::set<std::string> sums = {"ReduceSum", "ReduceSumSquare", "ReduceL1"};
  const ModelNode *before = node.inputs.empty() ? nullptr : makers.of(node.inputs[0]);
  return node.attributes.string("reduction", "") == "sum" ||
         (sums.contains(node.op) && !(before && before->op == "ReduceMean"));
}

bool isSum(const Model &model, const Loss &loss) {
  if (loss.kind != LossKind::output)
    return false;
  static const std::set<std::string> kept = {"Identity", "Cast",    "Neg",
                                             "Reshape",  "Squeeze", "Unsqueeze"};
  const Makers makers(model);
  // A number that divides may be that of the samples, where the file says how many they are.
  const bool mayDivide = fixedMicrobatchSize(model).has_value();
  bool isDivided = false;
  std::string value = loss.prediction;
  for (const ModelNode *node = makers.of(value); node; node = makers.of(value)) {
    const bool isScaled = (node->op == "Mul" || node->op == "Div") && node->inputs.size() == 2;
    isDivided = isDivided || isScaled;
    if (isScaled && numberNamed(model, node->inputs[1]))
      value = node->inputs[0];
    else if (isScaled && node->op == "Mul" && numberNamed(model, node->inputs[0]))
      value = node->inputs[1];
    else if (kept.contains(node->op) && !node->inputs.empty())
      value = node->inputs[0];
    else
      return !(mayDivide && isDivided) && addsUp(makers, *node);
  }
  return false;
}

} // namespace pdc
