#include "compiler/onnx/Parameters.h"

#include <fnmatch.h>

#include <algorithm>

namespace pdc {

namespace {

/// Which operands of an operator hold weights.
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
    {"LSTM", {1, 2, 3}},
    {"GRU", {1, 2, 3}},
    {"LayerNormalization", {1, 2}},
    {"MatMul", {0, 1}},
    {"Mul", {0, 1}},
    {"PRelu", {1}},
    {"RMSNormalization", {1}},
    {"RNN", {1, 2, 3}},
    {"Sub", {0, 1}},
};

/// What only moves or drops elements: a weight behind it is a weight before it.
constexpr std::string_view movements[] = {"Cast",     "Concat", "Dropout",   "Expand",   "Flatten",
                                          "Identity", "Pad",    "Reshape",   "Slice",    "Split",
                                          "Squeeze",  "Tile",   "Transpose", "Unsqueeze"};

constexpr std::string_view bufferNames[] = {"mask", "inv_freq", "rotary", "cos_cached",
                                            "sin_cached"};

bool isBufferName(const std::string &name) {
  return std::any_of(std::begin(bufferNames), std::end(bufferNames),
                     [&](std::string_view part) { return name.find(part) != std::string::npos; });
}

/// Single numbers are an epsilon or a scale; tools that simplify graphs make initializers of
/// Constant nodes, under the names of their outputs.
bool isConstant(const Initializer &initializer) {
  return initializer.literal || initializer.type.shape.empty() ||
         initializer.name.find("Constant_") != std::string::npos;
}

/// What a number of each element is multiplied with or added to: behind a Dropout such an operand
/// is a mask of ones as often as a weight.
bool isArithmetic(std::string_view op) {
  return op == "Add" || op == "Div" || op == "Mul" || op == "Sub";
}

/// `weights` are the operands found so far, `terms` those of them that arithmetic reads.
void addWeightOperands(const ModelNode &node, std::set<std::string> &weights,
                       std::set<std::string> &terms) {
  auto isMade = [&](const std::string &output) { return weights.contains(output); };
  bool movesWeight =
      std::find(std::begin(movements), std::end(movements), node.op) != std::end(movements) &&
      std::any_of(node.outputs.begin(), node.outputs.end(), isMade);
  auto isTerm = [&](const std::string &output) { return terms.contains(output); };
  const bool movesTerm = std::any_of(node.outputs.begin(), node.outputs.end(), isTerm);
  const size_t moved = !movesWeight ? 0 : node.op == "Concat" ? node.inputs.size() : 1;
  for (size_t i = 0; i < std::min(moved, node.inputs.size()); ++i) {
    if (!(movesTerm && node.op == "Dropout"))
      weights.insert(node.inputs[i]);
    if (movesTerm)
      terms.insert(node.inputs[i]);
  }
  for (const WeightOperands &row : weightOperands)
    for (size_t operand : row.operands)
      if (row.op == node.op && operand < node.inputs.size()) {
        weights.insert(node.inputs[operand]);
        if (isArithmetic(node.op))
          terms.insert(node.inputs[operand]);
      }
}

/// The exporter knows what its network trains. Of what it folded, factors of products are weights
/// in another form; terms are tables and masks as often.
void correctByMetadata(const Model &model, const std::vector<const ModelNode *> &nodes,
                       const std::set<std::string> &terms, std::set<std::string> &parameters) {
  const std::map<std::string, bool> &isParameter = model.metadata.isParameter;
  std::erase_if(parameters, [&](const std::string &name) {
    auto known = isParameter.find(name);
    return known == isParameter.end() ? terms.contains(name) : !known->second;
  });
  for (const ModelNode *node : nodes)
    for (const std::string &name : node->inputs)
      if (auto known = isParameter.find(name); known != isParameter.end() && known->second)
        if (auto found = model.initializers.find(name);
            found != model.initializers.end() && isFloatingPoint(found->second.type.element))
          parameters.insert(name);
}

std::set<std::string> parametersByRule(const Model &model, const Loss &loss) {
  std::set<std::string> operands, terms;
  std::vector<const ModelNode *> nodes = nodesOfLoss(model, loss);
  for (auto node = nodes.rbegin(); node != nodes.rend(); ++node)
    addWeightOperands(**node, operands, terms);
  std::set<std::string> statistics = runningStatistics(model), parameters;
  for (const auto &[name, initializer] : model.initializers)
    if (operands.contains(name) && isFloatingPoint(initializer.type.element) &&
        !isConstant(initializer) && !statistics.contains(name) && !isBufferName(name))
      parameters.insert(name);
  if (!model.metadata.isParameter.empty())
    correctByMetadata(model, nodes, terms, parameters);
  return parameters;
}

bool matches(const std::string &pattern, const std::string &name) {
  return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

std::set<std::string> matching(const Model &model, const std::string &pattern) {
  std::set<std::string> names, statistics = runningStatistics(model);
  for (const auto &[name, initializer] : model.initializers)
    if (matches(pattern, name) && isFloatingPoint(initializer.type.element) &&
        !statistics.contains(name))
      names.insert(name);
  if (names.empty())
    throw Error("pattern '" + pattern +
                "' matches no floating-point initializer that can be a "
                "parameter; `--stop-after=import` lists them");
  return names;
}

/// What the file trains must be something that its loss can train. An updated integer has no gradient,
/// and what the loss does not read may not even be imported.
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
      throw Error("the file trains '" + name + "', which the loss does not read; name what is trained "
                  "with --train PATTERN");
  }
}

} // namespace

std::set<std::string> runningStatistics(const Model &model) {
  std::set<std::string> names;
  for (const ModelNode &node : model.nodes)
    if (node.op == "BatchNormalization")
      for (size_t i = 3; i < node.inputs.size(); ++i)
        if (model.initializers.contains(node.inputs[i]))
          names.insert(node.inputs[i]);
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

std::vector<std::string> chooseUndecayed(const Model &model, const std::string &optimizer,
                                         const std::set<std::string> &parameters,
                                         std::vector<std::string> patterns) {
  if (optimizer.empty() && model.training)
    for (const std::string &name : model.training->undecayed)
      if (parameters.contains(name))
        patterns.push_back(patternOf(name));
  return patterns;
}

std::set<std::string> chooseParameters(const Model &model, const Loss &loss,
                                       const ParameterPatterns &patterns) {
  std::set<std::string> parameters;
  for (const std::string &pattern : patterns.train)
    parameters.merge(matching(model, pattern));
  if (patterns.train.empty())
    parameters = model.training ? model.training->parameters : parametersByRule(model, loss);
  for (const std::string &pattern : patterns.freeze)
    for (const std::string &name : matching(model, pattern))
      parameters.erase(name);
  if (patterns.train.empty() && model.training)
    checkTrained(model, loss, parameters);
  if (parameters.empty())
    throw Error("no initializer is left to train; name them with --train PATTERN");
  return parameters;
}

} // namespace pdc
