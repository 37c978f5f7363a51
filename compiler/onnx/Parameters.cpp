#include "compiler/onnx/Parameters.h"
#include "compiler/onnx/Makers.h"
#include "compiler/onnx/NodeAttributes.h"
#include "compiler/onnx/Normalisations.h"

#include <fnmatch.h>

#include <algorithm>

namespace pdc {

namespace {

/// Which operands of an operator hold weights; none named: all.
struct WeightOperands {
  std::string_view op;
  std::vector<size_t> operands;
};

const WeightOperands weightOperands[] = {
    {"Add", {0, 1}},
    {"BatchNormalization", {1, 2}},
    {"Conv", {1, 2}},
    {"ConvTranspose", {1, 2}},
    {"Div", {0, 1}},
    {"Einsum", {0, 1, 2}},
    {"Gather", {0}},
    {"Gemm", {0, 1, 2}},
    {"GroupNormalization", {1, 2}},
    {"InstanceNormalization", {1, 2}},
    {"LSTM", {1, 2, 3, 5, 6, 7}},
    {"GRU", {1, 2, 3, 5}},
    {"LayerNormalization", {1, 2}},
    {"MatMul", {0, 1}},
    {"Max", {}},
    {"Min", {}},
    {"Mul", {0, 1}},
    {"PRelu", {1}},
    {"Pow", {0, 1}},
    {"RMSNormalization", {1}},
    {"RNN", {1, 2, 3, 5}},
    {"Sub", {0, 1}},
    {"Sum", {}},
    {"Where", {1, 2}},
    {"pdc.EmbeddingBag", {0}},
};

/// What moves, drops or weighs elements of one tensor.
constexpr std::string_view movements[] = {
    "Cast",       "Clip",      "Concat",       "CumSum",  "Dropout",         "Expand",
    "Flatten",    "Identity",  "OneSidedClip", "Pad",     "ReduceLogSumExp", "ReduceMax",
    "ReduceMean", "ReduceMin", "ReduceSum",    "Reshape", "Resize",          "Slice",
    "Softmax",    "Split",     "Squeeze",      "Tile",    "Transpose",       "Trilu",
    "Unsqueeze"};

/// Tables of positions are normalised, and kernels of networks whose values are not.
constexpr std::string_view normalisations[] = {"BatchNormalization", "GroupNormalization",
                                               "InstanceNormalization", "LayerNormalization",
                                               "RMSNormalization"};

/// A weight behind these is a weight before them: movements, normalisations, and functions of each
/// element, as of a decay or scale that is trained as its logarithm. Tables of angles are no
/// weights.
bool leadsToItsInput(const ModelNode &node) {
  if (std::ranges::count(movements, node.op) > 0 || std::ranges::count(normalisations, node.op) > 0)
    return true;
  if (node.op == "Cos" || node.op == "Sin")
    return false;
  const Operator *rules = findOperator(node.op);
  return rules && rules->kind == OperatorClass::elementwise && rules->inputs.size() == 1 &&
         !rules->inputs[0].variadic && !rules->stopsGradient;
}

constexpr std::string_view bufferNames[] = {"mask", "inv_freq", "rotary", "cos_cached",
                                            "sin_cached"};

/// A layer may be called so, too: what it trains is its weight and bias.
bool isBufferName(const std::string &name) {
  if (name.ends_with(".weight") || name.ends_with(".bias"))
    return false;
  return std::any_of(std::begin(bufferNames), std::end(bufferNames),
                     [&](std::string_view part) { return name.find(part) != std::string::npos; });
}

/// Tools that simplify graphs make initializers of Constant nodes, under the names that PyTorch's
/// exporter gives their outputs: /layer/Constant_3_output_0.
bool isConstantName(const std::string &name) {
  const std::string own = name.substr(name.rfind('/') + 1); // the whole where there is none
  auto matches = [&](const char *pattern) { return fnmatch(pattern, own.c_str(), 0) == 0; };
  // A number follows where branches or bodies have equal names.
  return matches("Constant_output_[0-9]") || matches("Constant_[0-9]*_output_[0-9]") ||
         matches("Constant_output_[0-9]_[0-9]*") || matches("Constant_[0-9]*_output_[0-9]_[0-9]*");
}

/// What a number of each element is multiplied with or added to.
bool isArithmetic(std::string_view op) {
  constexpr std::string_view all[] = {"Add", "Div", "Max", "Min",  "Mul",
                                      "Pow", "Sub", "Sum", "Where"};
  return std::ranges::count(all, op) > 0;
}

/// An exponent, a bound, or what fills the masked: with one element a constant as a rule.
bool isSetting(const ModelNode &node, size_t operand) {
  return node.op == "Max" || node.op == "Min" || node.op == "Where" ||
         (node.op == "Pow" && operand == 1);
}

/// Where a sequence begins: one state for all samples is trained, one for each is not.
bool isInitialState(const ModelNode &node, size_t operand) {
  const bool isRecurrent = node.op == "LSTM" || node.op == "GRU" || node.op == "RNN";
  return isRecurrent && (operand == 5 || operand == 6);
}

/// Values that stand where weights do: operands of layers, of which some are initial states, and
/// terms and factors of arithmetic, of which some are settings.
struct Operands {
  std::set<std::string> layers, states, terms, settings;
  /// Elements are picked from tables (the factors of a diffusion's steps) as often as from weights.
  std::set<std::string> picked;

  /// Nodes are to be added from the last to the first. Behind a Dropout a term is a mask of ones as
  /// often as a weight, and a triangle is cut from masks.
  void add(const ModelNode &node) {
    if (leadsToItsInput(node)) {
      move(node, layers, layers);
      if (node.op != "Dropout" && node.op != "Trilu")
        move(node, terms, terms);
    }
    if (picksElements(node))
      picked.insert(node.inputs.at(0));
    else if (leadsToItsInput(node))
      move(node, repeatsOrJoins(node) ? layers : picked, picked);
    for (const WeightOperands &row : weightOperands)
      for (size_t operand = 0; row.op == node.op && operand < node.inputs.size(); ++operand)
        if (row.operands.empty() || std::ranges::count(row.operands, operand) > 0)
          addWeight(node, operand);
  }

private:
  void addWeight(const ModelNode &node, size_t operand) {
    const std::string &name = node.inputs[operand];
    (isArithmetic(node.op) ? terms : layers).insert(name);
    if (isSetting(node, operand))
      settings.insert(name);
    if (isInitialState(node, operand))
      states.insert(name);
  }
  static bool picksElements(const ModelNode &node) {
    return node.op == "GatherElements" || node.op == "GatherND";
  }
  /// What is repeated for each sample, or put beside what is computed, is a weight.
  static bool repeatsOrJoins(const ModelNode &node) {
    return node.op == "Concat" || node.op == "Expand" || node.op == "Tile";
  }
  static void move(const ModelNode &node, std::set<std::string> &to,
                   const std::set<std::string> &operands) {
    if (std::ranges::none_of(node.outputs,
                             [&](const std::string &name) { return operands.contains(name); }))
      return;
    const size_t moved = node.op == "Concat" ? node.inputs.size() : 1;
    for (size_t i = 0; i < std::min(moved, node.inputs.size()); ++i)
      to.insert(node.inputs[i]);
  }
};

/// Why an operand is taken for something else than a parameter; empty where it is one. The exporter
/// knows what its network trains. Of what it folded, factors of products are weights in another
/// form; terms are tables and masks as often.
std::string reasonAgainst(const Model &model, const Initializer &initializer,
                          const Operands &operands) {
  const std::string &name = initializer.name;
  const bool isTerm = operands.terms.contains(name);
  const ExporterMetadata &metadata = model.metadata;
  if (auto known = metadata.isParameter.find(name); known != metadata.isParameter.end())
    return known->second                            ? ""
           : metadata.changedBuffers.contains(name) ? "a buffer, which PyTorch's step changes and "
                                                      "pdc leaves as the file has it"
                                                    : "a buffer, by its exporter";
  if (metadata.folded.contains(name) && isTerm)
    return "made by its exporter";
  if (initializer.literal || isConstantName(name))
    return "named as a constant";
  if (isBufferName(name))
    return "named as a mask or table";
  if (isTerm && kindOfMask(initializer) == MaskKind::hides)
    return "a mask, by what it holds";
  const std::vector<int64_t> &shape = initializer.type.shape;
  if (operands.states.contains(name) && shape.size() == 3 && shape[1] != 1)
    return "a state of each sample";
  if (!isTerm && !operands.layers.contains(name) && operands.picked.contains(name))
    return "a table that elements are picked from";
  const bool isNumber =
      shape.empty() || (initializer.type.elementCount() == 1 && operands.settings.contains(name));
  if (isNumber && !operands.layers.contains(name))
    return "a single number";
  return "";
}

struct Choice {
  std::set<std::string> parameters;
  std::map<std::string, std::string> reasonsAgainst;
};

Choice chooseByRule(const Model &model, const Loss &loss) {
  Operands operands;
  std::set<std::string> read;
  std::vector<const ModelNode *> nodes = nodesOfLoss(model, loss);
  for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
    operands.add(**node);
    read.insert((*node)->inputs.begin(), (*node)->inputs.end());
  }
  const std::set<std::string> statistics = runningStatistics(model);
  Choice choice;
  for (const auto &[name, initializer] : model.initializers) {
    auto known = model.metadata.isParameter.find(name);
    const bool isParameter = known != model.metadata.isParameter.end() && known->second;
    const bool isOperand = operands.layers.contains(name) || operands.terms.contains(name) ||
                           operands.picked.contains(name);
    if (!isFloatingPoint(initializer.type.element) || statistics.contains(name) ||
        !(isOperand || (isParameter && read.contains(name))))
      continue;
    if (std::string reason = reasonAgainst(model, initializer, operands); reason.empty())
      choice.parameters.insert(name);
    else if (!initializer.literal)
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
                "' matches running statistics alone, which are no parameters; "
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

} // namespace

std::set<std::string> initializersMatching(const Model &model, const std::string &pattern) {
  std::set<std::string> names;
  for (const auto &[name, initializer] : model.initializers)
    if (matches(model, pattern, name) && isFloatingPoint(initializer.type.element))
      names.insert(name);
  if (names.empty())
    throw Error("pattern '" + pattern +
                "' matches no floating-point initializer; `--stop-after=import` lists them");
  return names;
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
    return found != model.initializers.end() && !found->second.literal &&
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
