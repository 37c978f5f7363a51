#include "compiler/operators/Elementwise.h"
#include "compiler/operators/Families.h"
#include "compiler/operators/Rules.h"

#include <algorithm>
#include <cmath>

namespace pdc {

// Losses that compare a prediction with a target of the same shape, summed over all elements

static std::vector<TensorType> inferPairLoss(const NodeView &node) {
  const TensorType &prediction = node.input(0), &target = node.input(1);
  if (prediction != target)
    refuse(node,
           "prediction " + prediction.toString() + " and target " + target.toString() + " differ");
  if (node.attributes.string("reduction", "sum") != "sum")
    refuse(node,
           "reduction '" + node.attributes.string("reduction", "sum") + "'; supported is sum");
  return {{prediction.element, {}}};
}

static double squaredError(double x, double t) { return (x - t) * (x - t); }
static double absoluteError(double x, double t) { return std::abs(x - t); }
/// -t log(sigmoid(x)) - (1 - t) log(1 - sigmoid(x)) without overflow.
static double binaryCrossEntropy(double x, double t) {
  return std::max(x, 0.0) - x * t + std::log1p(std::exp(-std::abs(x)));
}

template <double (*loss)(double, double)>
static std::vector<Tensor> evaluatePairLoss(const NodeView &node,
                                            std::span<const Tensor *const> inputs) {
  double sum = 0;
  for (size_t i = 0; i < inputs[0]->data.size(); ++i)
    sum += loss(inputs[0]->data[i], inputs[1]->data[i]);
  return {Tensor{inferPairLoss(node)[0], {sum}}};
}

static void differentiatePairLoss(GradientBuilder &b, std::string_view gradient) {
  if (b.wants(1))
    throw Error("there is no gradient for the target of a loss");
  if (b.wants(0))
    b.setInputGradient(0, add(b, gradient, {b.input(0), b.input(1), b.outputGradient(0)}));
}
static void differentiateSquaredError(GradientBuilder &b) {
  differentiatePairLoss(b, "MeanSquaredErrorGrad");
}
static void differentiateAbsoluteError(GradientBuilder &b) {
  differentiatePairLoss(b, "MeanAbsoluteErrorGrad");
}
static void differentiateBinaryCrossEntropy(GradientBuilder &b) {
  differentiatePairLoss(b, "BinaryCrossEntropyWithLogitsGrad");
}

std::vector<ElementwiseRow> lossGradientRows() {
  const std::vector<Parameter> inputs = {{"prediction"}, {"target"}, {"dY"}};
  return {
      {"MeanSquaredErrorGrad", 0, inputs, {PDC_EXPRESSION(2 * $2 * ($0 - $1))}},
      {"MeanAbsoluteErrorGrad",
       0,
       inputs,
       {PDC_EXPRESSION($0 > $1   ? $2
                       : $0 < $1 ? -$2
                                 : 0)}},
      {"BinaryCrossEntropyWithLogitsGrad",
       0,
       inputs,
       {PDC_EXPRESSION($2 * (1 / (1 + std::exp(-$0)) - $1))}},
  };
}

// What losses are divided by, and accuracy

static std::vector<TensorType> inferScalar(const NodeView &node) {
  node.input(0);
  return {{ElementType::f32, {}}};
}

/// Number of labels that count; with class weights their sum; without ignore_index all elements.
static std::vector<Tensor> evaluateLossWeight(const NodeView &node,
                                              std::span<const Tensor *const> inputs) {
  bool canIgnore = node.attributes.has("ignore_index");
  int64_t ignored = node.attributes.integer("ignore_index", 0);
  const Tensor *weights = inputs.size() > 1 ? inputs[1] : nullptr;
  double sum = 0;
  for (double label : inputs[0]->data) {
    if (canIgnore && label == ignored)
      continue;
    if (weights && !(label >= 0 && label < weights->data.size()))
      refuse(node, "label " + std::to_string(toInteger(label)) + " has no class weight");
    sum += weights ? weights->data[static_cast<size_t>(label)] : 1;
  }
  return {Tensor::scalar(ElementType::f32, sum)};
}

static std::vector<TensorType> inferCorrectPredictions(const NodeView &node) {
  std::vector<int64_t> expected = node.input(0).shape;
  if (expected.size() < 2)
    refuse(node, "scores " + node.input(0).toString() + ", expected batch and classes at least");
  expected.erase(expected.begin() + 1);
  if (node.input(1).shape != expected)
    refuse(node,
           "labels are " + node.input(1).toString() + ", expected shape " + shapeText(expected));
  return {{ElementType::f32, {}}};
}

/// The first of equal scores wins.
static std::vector<Tensor> evaluateCorrectPredictions(const NodeView &node,
                                                      std::span<const Tensor *const> inputs) {
  const Tensor &scores = *inputs[0], &labels = *inputs[1];
  int64_t classes = scores.type.shape[1], inner = product(scores.type.shape, 2);
  bool canIgnore = node.attributes.has("ignore_index");
  int64_t ignored = node.attributes.integer("ignore_index", 0);
  double correct = 0;
  for (int64_t i = 0; i < static_cast<int64_t>(labels.data.size()); ++i) {
    auto score = [&](int64_t c) {
      return scores.data[(i / inner * classes + c) * inner + i % inner];
    };
    int64_t best = 0;
    for (int64_t c = 1; c < classes; ++c)
      best = score(c) > score(best) ? c : best;
    if (!(canIgnore && labels.data[i] == ignored))
      correct += labels.data[i] == best;
  }
  return {Tensor::scalar(ElementType::f32, correct)};
}

std::span<const Operator> lossOperators() {
  auto pairLoss = [](std::string_view name, auto evaluate, auto differentiate) {
    return Operator{.name = name,
                    .inputs = {{"prediction"}, {"target"}},
                    .outputs = {{"loss"}},
                    .elements = floatElements(),
                    .infer = inferPairLoss,
                    .evaluate = evaluate,
                    .differentiate = differentiate};
  };
  static const Operator operators[] = {
      pairLoss("MeanSquaredError", evaluatePairLoss<squaredError>, differentiateSquaredError),
      pairLoss("MeanAbsoluteError", evaluatePairLoss<absoluteError>, differentiateAbsoluteError),
      pairLoss("BinaryCrossEntropyWithLogits", evaluatePairLoss<binaryCrossEntropy>,
               differentiateBinaryCrossEntropy),
      {.name = "LossWeight",
       .inputs = {{"labels"}, {"weights", true}},
       .outputs = {{"weight"}},
       .infer = inferScalar,
       .evaluate = evaluateLossWeight,
       .stopsGradient = true},
      {.name = "CorrectPredictions",
       .inputs = {{"scores"}, {"labels"}},
       .outputs = {{"correct"}},
       .infer = inferCorrectPredictions,
       .evaluate = evaluateCorrectPredictions,
       .stopsGradient = true},
  };
  return operators;
}

} // namespace pdc
