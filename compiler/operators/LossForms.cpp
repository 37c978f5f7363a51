#include "compiler/operators/Composition.h"
#include "compiler/operators/Rules.h"

/// Losses whose kernels make sums: the forms that give a mean, or one number per label.
namespace pdc {

/// One number per label, and the weights that they were multiplied by.
struct LabelledLoss {
  NodeValue losses, weights;
};

static LabelledLoss lossOfLabels(CompositionBuilder &b, NodeValue scores) {
  TensorType type = b.type(scores), labels = b.type(b.input(1));
  if (type.rank() < 2 || labels.rank() != type.rank() - 1)
    b.refuse("labels " + labels.toString() + " do not fit scores " + type.toString());
  auto isIgnored = add(b, "Equal",
                       {b.input(1), number(b, labels.element,
                                           double(b.attributes().integer("ignore_index", -1)))});
  NodeValue zero = number(b, type.element, 0), one = number(b, type.element, 1);
  NodeValue inside = add(b, "Where", {isIgnored, number(b, labels.element, 0), b.input(1)});
  NodeValue weights = one;
  if (b.input(2))
    weights = add(b, "Gather", {b.input(2), inside}, {{"axis", int64_t(0)}});
  std::vector<int64_t> column = labels.shape;
  column.insert(column.begin() + 1, 1);
  NodeValue picked = add(b, "GatherElements", {scores, reshaped(b, inside, column)},
                         {{"axis", int64_t(1)}});
  LabelledLoss loss;
  loss.weights = add(b, "Where", {isIgnored, zero, weights});
  loss.losses =
      add(b, "Neg", {add(b, "Mul", {reshaped(b, picked, labels.shape), loss.weights})});
  return loss;
}

/// Labels that are shares of the classes, as PyTorch has them and its exporters write them though
/// ONNX knows none: of each label the sum of its classes' losses, by their weights; their mean is
/// over labels.
static NodeValue lossOfShares(CompositionBuilder &b, NodeValue logarithms) {
  const TensorType scores = b.type(logarithms);
  NodeValue parts = add(b, "Mul", {logarithms, b.input(1)});
  if (b.input(2)) {
    std::vector<int64_t> column(static_cast<size_t>(scores.rank() - 1), 1);
    column[0] = scores.shape[1];
    parts = add(b, "Mul", {parts, reshaped(b, b.input(2), column)});
  }
  NodeValue losses = add(b, "Neg", {add(b, "ReduceSum", {parts, b.constant(Tensor::vector({1}))},
                                        {{"keepdims", int64_t(0)}})});
  const std::string reduction = b.attributes().string("reduction", "mean");
  if (reduction == "none")
    return losses;
  return add(b, reduction == "sum" ? "ReduceSum" : "ReduceMean", {losses},
             {{"keepdims", int64_t(0)}});
}

static NodeValue reducedLoss(CompositionBuilder &b, NodeValue scores) {
  LabelledLoss loss = lossOfLabels(b, scores);
  if (b.attributes().string("reduction", "mean") == "none")
    return loss.losses;
  Attributes drops = {{"keepdims", int64_t(0)}};
  return add(b, "Div", {add(b, "ReduceSum", {loss.losses}, drops),
                        add(b, "ReduceSum", {loss.weights}, drops)});
}

static std::vector<NodeValue> composeNll(CompositionBuilder &b) {
  if (b.attributes().string("reduction", "mean") == "sum")
    return {};
  return {reducedLoss(b, b.input(0))};
}

static std::vector<NodeValue> composeCrossEntropy(CompositionBuilder &b) {
  if (isFloatingPoint(b.type(b.input(1)).element)) {
    NodeValue logarithms = add(b, "LogSoftmax", {b.input(0)}, {{"axis", int64_t(1)}});
    // In place of the rows' scales, which nobody reads of this form.
    return {lossOfShares(b, logarithms), logarithms, logarithms};
  }
  if (b.attributes().string("reduction", "mean") == "sum")
    return {};
  NodeValue logarithms = add(b, "LogSoftmax", {b.input(0)}, {{"axis", int64_t(1)}});
  return {reducedLoss(b, logarithms), logarithms};
}

std::span<const ComposedForm> lossForms() {
  static const ComposedForm forms[] = {{"NegativeLogLikelihoodLoss", composeNll},
                                       {"SoftmaxCrossEntropyLoss", composeCrossEntropy}};
  return forms;
}

} // namespace pdc
