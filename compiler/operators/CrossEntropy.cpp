#include "compiler/operators/Families.h"
#include "compiler/operators/Rules.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace pdc {

/// Scores are [N, C, d1, ...], labels [N, d1, ...]. Label i's row has class c at `at(i, c)`.
struct LabelledRows {
  int64_t classes, inner;
  explicit LabelledRows(const std::vector<int64_t> &scores)
      : classes(scores[1]), inner(product(scores, 2)) {}
  int64_t at(int64_t label, int64_t c) const {
    return (label / inner * classes + c) * inner + label % inner;
  }
};

static void checkLabels(const NodeView &node, const std::vector<int64_t> &scores,
                        const TensorType &labels) {
  if (scores.size() < 2)
    refuse(node, "scores " + shapeText(scores) +
                     ", expected batch and classes at least; an output "
                     "that is a loss itself is trained with --loss output");
  std::vector<int64_t> expected = scores;
  expected.erase(expected.begin() + 1);
  if (labels.shape != expected || isFloatingPoint(labels.element))
    refuse(node, "labels are " + labels.toString() + ", expected integers of shape " +
                     shapeText(expected));
}

static std::string reductionOf(const NodeView &node) {
  std::string reduction = node.attributes.string("reduction", "mean");
  if (reduction != "sum" && reduction != "mean" && reduction != "none")
    refuse(node, "reduction '" + reduction + "'; supported are sum, mean and none");
  return reduction;
}

/// Weight of each label: 0 where ignored, its class's weight else.
static std::vector<double> labelWeights(const NodeView &node, const Tensor &labels,
                                        const Tensor *classWeights, int64_t classes) {
  std::vector<double> weights;
  bool canIgnore = node.attributes.has("ignore_index");
  double ignored = canIgnore ? static_cast<double>(node.attributes.integer("ignore_index", 0)) : 0;
  for (double label : labels.data) {
    if (canIgnore && label == ignored) {
      weights.push_back(0);
      continue;
    }
    if (label < 0 || label >= classes)
      refuse(node, "label " + std::to_string(toInteger(label)) + " is outside the " +
                       std::to_string(classes) + " classes");
    weights.push_back(classWeights ? classWeights->data.at(static_cast<size_t>(label)) : 1);
  }
  return weights;
}

static double total(const std::vector<double> &weights) {
  double sum = 0;
  for (double weight : weights)
    sum += weight;
  return sum;
}

/// Of each row its largest score, then the logarithm of the sum of exponentials relative to it: a
/// score less both is the logarithm of its probability. One number, their sum, would lose the
/// logarithm of large scores.
static TensorType rowScalesOf(TensorType scores) {
  scores.shape[1] = 2;
  return scores;
}

static std::vector<TensorType> inferLoss(const NodeView &node) {
  const TensorType &scores = node.input(0), &labels = node.input(1);
  // Shares of the classes, of which the loss is composed.
  const bool hasShares = node.op == "SoftmaxCrossEntropyLoss" && isFloatingPoint(labels.element) &&
                         labels.shape == scores.shape && scores.rank() > 1;
  if (!hasShares)
    checkLabels(node, scores.shape, labels);
  if (node.hasInput(2) && node.input(2).shape != std::vector<int64_t>{scores.shape[1]})
    refuse(node, "weights are " + node.input(2).toString() + ", expected one per class");
  TensorType loss{scores.element, {}};
  if (reductionOf(node) == "none")
    loss.shape = labels.shape;
  if (hasShares && !loss.shape.empty())
    loss.shape.erase(loss.shape.begin() + 1);
  std::vector<TensorType> types = {loss, scores, rowScalesOf(scores)};
  types.resize(std::min<size_t>(node.op == "SoftmaxCrossEntropyLoss" ? 3 : 1, node.outputCount));
  return types;
}

/// -sum of weight * log probability of the label, reduced.
static Tensor reducedLoss(const NodeView &node, const Tensor &logProbabilities,
                          const Tensor &labels, const Tensor *classWeights) {
  checkLabels(node, logProbabilities.type.shape, labels.type);
  LabelledRows rows(logProbabilities.type.shape);
  std::vector<double> weights = labelWeights(node, labels, classWeights, rows.classes);
  Tensor loss = Tensor::zeros({logProbabilities.type.element, labels.type.shape});
  for (size_t i = 0; i < weights.size(); ++i)
    if (weights[i] != 0)
      loss.data[i] = -weights[i] * logProbabilities.data[rows.at(i, toInteger(labels.data[i]))];
  std::string reduction = reductionOf(node);
  if (reduction == "none")
    return loss;
  double divisor = reduction == "mean" ? total(weights) : 1;
  return Tensor::scalar(loss.type.element, total(loss.data) / divisor);
}

static const Tensor *optional(std::span<const Tensor *const> inputs, size_t i) {
  return i < inputs.size() ? inputs[i] : nullptr;
}

static Tensor rowScales(const Tensor &scores) {
  Tensor scales = Tensor::zeros(rowScalesOf(scores.type));
  const LabelledRows rows(scores.type.shape), to(scales.type.shape);
  for (int64_t i = 0; i < product(scores.type.shape) / rows.classes; ++i) {
    double most = -std::numeric_limits<double>::infinity(), sum = 0;
    for (int64_t c = 0; c < rows.classes; ++c)
      most = std::max(most, scores.data[rows.at(i, c)]);
    for (int64_t c = 0; c < rows.classes; ++c)
      sum += std::exp(scores.data[rows.at(i, c)] - most);
    scales.data[to.at(i, 0)] = most;
    scales.data[to.at(i, 1)] = std::log(sum);
  }
  return scales;
}

static Tensor logProbabilitiesOf(const Tensor &scores, const Tensor &scales) {
  Tensor logarithms = scores;
  const LabelledRows rows(scores.type.shape), of(scales.type.shape);
  for (int64_t i = 0; i < product(scores.type.shape) / rows.classes; ++i)
    for (int64_t c = 0; c < rows.classes; ++c)
      logarithms.data[rows.at(i, c)] -= scales.data[of.at(i, 0)] + scales.data[of.at(i, 1)];
  return logarithms;
}

static std::vector<Tensor> evaluateCrossEntropy(const NodeView &node,
                                                std::span<const Tensor *const> inputs) {
  inferLoss(node);
  const Tensor scales = rowScales(*inputs[0]),
               logProbabilities = logProbabilitiesOf(*inputs[0], scales);
  const Tensor loss = reducedLoss(node, logProbabilities, *inputs[1], optional(inputs, 2));
  std::vector<Tensor> results = {loss, logProbabilities, scales};
  results.resize(std::min<size_t>(3, node.outputCount));
  return results;
}

static std::vector<Tensor> evaluateNll(const NodeView &node,
                                       std::span<const Tensor *const> inputs) {
  inferLoss(node);
  return {reducedLoss(node, *inputs[0], *inputs[1], optional(inputs, 2))};
}

static void refuseWeightGradient(GradientBuilder &b) {
  if (b.inputCount() > 2 && b.wants(2))
    throw Error("there is no gradient for the class weights of a loss");
}

/// From what the loss itself arrives at, and from its second output where that is read, too.
static void differentiateCrossEntropy(GradientBuilder &b) {
  refuseWeightGradient(b);
  if (!b.wants(0))
    return;
  GradientValue total;
  if (b.outputGradient(0)) {
    if (!b.output(2))
      throw Error(
          "SoftmaxCrossEntropyLoss has no third output; its gradient needs the rows' scales");
    std::vector<GradientValue> inputs = {b.input(0), b.output(2), b.input(1), b.outputGradient(0)};
    if (b.inputCount() > 2)
      inputs.push_back(b.input(2));
    total = add(b, "SoftmaxCrossEntropyLossGrad", inputs, b.attributes());
  }
  if (b.outputGradient(1)) {
    GradientValue other =
        add(b, "LogSoftmaxGrad", {b.outputGradient(1), b.output(1)}, {{"axis", int64_t(1)}});
    total = total ? add(b, "Add", {total, other}) : other;
  }
  b.setInputGradient(0, total);
}

static void differentiateNll(GradientBuilder &b) {
  refuseWeightGradient(b);
  if (!b.wants(0))
    return;
  Attributes attributes = b.attributes();
  attributes.set("input_shape", b.type(b.input(0)).shape);
  std::vector<GradientValue> inputs = {b.outputGradient(0), b.input(1)};
  if (b.inputCount() > 2)
    inputs.push_back(b.input(2));
  b.setInputGradient(0, add(b, "NegativeLogLikelihoodLossGrad", inputs, attributes));
}

static std::vector<TensorType> inferCrossEntropyGrad(const NodeView &node) {
  const TensorType &scores = node.input(0);
  checkLabels(node, scores.shape, node.input(2));
  if (node.input(1).shape != rowScalesOf(scores).shape)
    refuse(node, "scales are " + node.input(1).toString() + ", expected two for each row of " +
                     scores.toString());
  return {scores};
}

static std::vector<TensorType> inferNllGrad(const NodeView &node) {
  std::vector<int64_t> shape = node.attributes.integers("input_shape");
  checkLabels(node, shape, node.input(1));
  return {{node.input(0).element, shape}};
}

/// What each label's loss contributes to the reduced one, times the arriving gradient.
static std::vector<double> labelGradients(const NodeView &node, const Tensor &dy,
                                          const Tensor &labels, const Tensor *classWeights,
                                          int64_t classes) {
  std::vector<double> gradients = labelWeights(node, labels, classWeights, classes);
  std::string reduction = reductionOf(node);
  double divisor = reduction == "mean" ? total(gradients) : 1;
  for (size_t i = 0; i < gradients.size(); ++i)
    gradients[i] *= dy.data.at(reduction == "none" ? i : 0) / divisor;
  return gradients;
}

/// d loss / d score of class c = weight * (probability of c - [c is the label]).
static std::vector<Tensor> evaluateCrossEntropyGrad(const NodeView &node,
                                                    std::span<const Tensor *const> inputs) {
  const Tensor &labels = *inputs[2];
  Tensor dx = Tensor::zeros(inferCrossEntropyGrad(node)[0]);
  LabelledRows rows(dx.type.shape);
  const Tensor logProbabilities = logProbabilitiesOf(*inputs[0], *inputs[1]);
  std::vector<double> gradients =
      labelGradients(node, *inputs[3], labels, optional(inputs, 4), rows.classes);
  for (size_t i = 0; i < gradients.size(); ++i)
    for (int64_t c = 0; c < rows.classes && gradients[i] != 0; ++c) {
      double probability = std::exp(logProbabilities.data[rows.at(i, c)]);
      dx.data[rows.at(i, c)] = gradients[i] * (probability - (c == labels.data[i]));
    }
  return {dx};
}

static std::vector<Tensor> evaluateNllGrad(const NodeView &node,
                                           std::span<const Tensor *const> inputs) {
  const Tensor &labels = *inputs[1];
  Tensor dx = Tensor::zeros(inferNllGrad(node)[0]);
  LabelledRows rows(dx.type.shape);
  std::vector<double> gradients =
      labelGradients(node, *inputs[0], labels, optional(inputs, 2), rows.classes);
  for (size_t i = 0; i < gradients.size(); ++i)
    if (gradients[i] != 0)
      dx.data[rows.at(i, toInteger(labels.data[i]))] = -gradients[i];
  return {dx};
}

/// The gradient of a sum needs a third output, which ONNX's operator does not have. Other forms are
/// composed.
static void normaliseCrossEntropy(ImportedNode &node, int opset) {
  if (node.outputs.size() > 2)
    refuse(node, opset, std::to_string(node.outputs.size()) + " outputs, expected at most 2");
  if (node.attributes.string("reduction", "mean") == "sum")
    node.outputs.resize(3);
}

std::span<const Operator> crossEntropyOperators() {
  static const Operator operators[] = {
      {.name = "SoftmaxCrossEntropyLoss",
       .firstOpset = 12,
       .lastOpset = kLastOpset,
       .inputs = {{"scores"}, {"labels"}, {"weights", true}},
       .outputs = {{"output"}, {"log_prob", true}, {"scales", true}},
       .elements = floatElements(),
       .normalise = normaliseCrossEntropy,
       .infer = inferLoss,
       .evaluate = evaluateCrossEntropy,
       .differentiate = differentiateCrossEntropy},
      // Not ONNX Runtime's of this name, which reads the logarithms: no file's is imported.
      {.name = "SoftmaxCrossEntropyLossGrad",
       .inputs = {{"scores"}, {"scales"}, {"labels"}, {"dY"}, {"weights", true}},
       .outputs = {{"dX"}},
       .infer = inferCrossEntropyGrad,
       .evaluate = evaluateCrossEntropyGrad},
      {.name = "NegativeLogLikelihoodLoss",
       .firstOpset = 12,
       .lastOpset = kLastOpset,
       .inputs = {{"input"}, {"target"}, {"weight", true}},
       .outputs = {{"loss"}},
       .elements = floatElements(),
       .infer = inferLoss,
       .evaluate = evaluateNll,
       .differentiate = differentiateNll},
      {.name = "NegativeLogLikelihoodLossGrad",
       .inputs = {{"dY"}, {"target"}, {"weight", true}},
       .outputs = {{"dX"}},
       .infer = inferNllGrad,
       .evaluate = evaluateNllGrad},
  };
  return operators;
}

} // namespace pdc
