#include "compiler/onnx/WeightPlaces.h"

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
    {"GridSample", {0}},
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
    {"ScatterElements", {2}},
    {"ScatterND", {2}},
    {"Sub", {0, 1}},
    {"Sum", {}},
    {"Where", {1, 2}},
    {"pdc.EmbeddingBag", {0}},
};

/// What moves, drops or weighs elements of one tensor.
constexpr std::string_view weightMovements[] = {
    "AveragePool", "Cast",       "Clip",         "Concat",          "CumSum",       "Dropout",
    "Expand",      "Flatten",    "Identity",     "LogSoftmax",      "OneSidedClip", "Pad",
    "ReduceL1",    "ReduceL2",   "ReduceLogSum", "ReduceLogSumExp", "ReduceMax",    "ReduceMean",
    "ReduceMin",   "ReduceProd", "ReduceSum",    "ReduceSumSquare", "Reshape",      "Resize",
    "Slice",       "Softmax",    "Split",        "Squeeze",         "Tile",         "TopK",
    "Transpose",   "Trilu",      "Unsqueeze"};

/// Tables of positions are normalised, and kernels of networks whose values are not.
constexpr std::string_view normalisations[] = {"BatchNormalization", "GroupNormalization",
                                               "InstanceNormalization", "LayerNormalization",
                                               "RMSNormalization"};

/// A weight behind these is a weight before them: movements, normalisations, and functions of each
/// element, as of a decay or scale that is trained as its logarithm. Tables of angles are no
/// weights.
bool leadsToItsInput(const ModelNode &node) {
  if (std::ranges::count(weightMovements, node.op) > 0 ||
      std::ranges::count(normalisations, node.op) > 0)
    return true;
  if (node.op == "Cos" || node.op == "Sin")
    return false;
  const Operator *rules = findOperator(node.op);
  return rules && rules->kind == OperatorClass::elementwise && rules->inputs.size() == 1 &&
         !rules->inputs[0].variadic && !rules->stopsGradient;
}

/// What a number of each element is multiplied with or added to.
bool isArithmetic(std::string_view op) {
  constexpr std::string_view all[] = {"Add", "Div", "Max", "Min",  "Mul",
                                      "Pow", "Sub", "Sum", "Where"};
  return std::ranges::count(all, op) > 0;
}

/// An exponent, a bound, or what fills the masked: with one element a constant as a rule, as is
/// what keeps a root from zero.
bool isSetting(const ModelNode &node, size_t operand) {
  return node.op == "Max" || node.op == "Min" || node.op == "Where" ||
         (node.op == "Pow" && operand == 1);
}

/// Where a sequence begins: one state for all samples is trained, one for each is not.
bool isInitialState(const ModelNode &node, size_t operand) {
  const bool isRecurrent = node.op == "LSTM" || node.op == "GRU" || node.op == "RNN";
  return isRecurrent && (operand == 5 || operand == 6);
}

/// What is repeated for each sample, or put beside what is computed, is a weight.
bool repeatsOrJoins(const ModelNode &node) {
  return node.op == "Concat" || node.op == "Expand" || node.op == "Tile";
}

/// An image that is convolved is a weight where it comes as it is, or repeated for each sample, as
/// StyleGAN begins with; what is put beside another is coordinates as a rule, or zeros.
bool keepsImage(const ModelNode &node) {
  return node.op == "Cast" || node.op == "Expand" || node.op == "Identity" ||
         node.op == "Reshape" || node.op == "Tile" || node.op == "Unsqueeze";
}

bool picksElements(const ModelNode &node) {
  return node.op == "GatherElements" || node.op == "GatherND";
}

/// What leads to such operands is one of them.
void move(const ModelNode &node, std::set<std::string> &to, const std::set<std::string> &operands) {
  if (std::ranges::none_of(node.outputs,
                           [&](const std::string &name) { return operands.contains(name); }))
    return;
  const size_t moved = node.op == "Concat" ? node.inputs.size() : 1;
  for (size_t i = 0; i < std::min(moved, node.inputs.size()); ++i)
    to.insert(node.inputs[i]);
}

bool holdsWeight(const ModelNode &node, size_t operand) {
  return std::ranges::any_of(weightOperands, [&](const WeightOperands &row) {
    return row.op == node.op &&
           (row.operands.empty() || std::ranges::count(row.operands, operand) > 0);
  });
}

} // namespace

/// From the last node to the first.
WeightPlaces::WeightPlaces(const std::vector<const ModelNode *> &nodes) {
  for (auto node = nodes.rbegin(); node != nodes.rend(); ++node)
    add(**node);
}

/// Behind a Dropout a term is a mask of ones as often as a weight, and a triangle is cut from
/// masks.
void WeightPlaces::add(const ModelNode &node) {
  if (leadsToItsInput(node)) {
    move(node, layers, layers);
    if (node.op != "Dropout" && node.op != "Trilu")
      move(node, terms, terms);
    move(node, others, others);
    if (node.op != "Concat")
      move(node, repeated, repeated);
  }
  if (node.op == "Expand" || node.op == "Tile")
    repeated.insert(node.inputs.at(0));
  if (node.op == "Sqrt")
    rooted.insert(node.inputs.at(0));
  if (keepsImage(node))
    move(node, images, images);
  if (node.op == "Conv" || node.op == "ConvTranspose")
    images.insert(node.inputs.at(0));
  if (node.op == "ScatterND" || node.op == "ScatterElements")
    changed.insert(node.inputs.at(0));
  if (picksElements(node))
    picked.insert(node.inputs.at(0));
  else if (leadsToItsInput(node))
    move(node, repeatsOrJoins(node) ? layers : picked, picked);
  for (size_t operand = 0; operand < node.inputs.size(); ++operand)
    holdsWeight(node, operand) ? addWeight(node, operand) : addOther(node, operand);
}

void WeightPlaces::addWeight(const ModelNode &node, size_t operand) {
  const std::string &name = node.inputs[operand];
  (isArithmetic(node.op) ? terms : layers).insert(name);
  if (isSetting(node, operand) || (node.op == "Add" && rooted.contains(node.outputs.at(0))))
    settings.insert(name);
  if (node.op == "Mul" || node.op == "Div")
    factors.insert(name);
  if (isInitialState(node, operand))
    states.insert(name);
}

void WeightPlaces::addOther(const ModelNode &node, size_t operand) {
  const Operator *rules = findOperator(node.op);
  if (!rules || rules->inputs.empty() || leadsToItsInput(node))
    return;
  if (!rules->inputs[std::min(operand, rules->inputs.size() - 1)].known)
    others.insert(node.inputs[operand]);
}

} // namespace pdc
