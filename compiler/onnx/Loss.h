#pragma once

#include "compiler/onnx/Model.h"

namespace pdc {

enum class LossKind : uint8_t { crossEntropy, nll, mse, l1, bceWithLogits, output, none };

/// What training minimises: the sum over samples of the loss, to be divided by a sum of weights.
struct Loss {
  LossKind kind = LossKind::crossEntropy;
  /// The value that is judged; for `output` the value that is the loss; for `none`, where nothing
  /// is trained, empty: all outputs are wanted.
  std::string prediction;
  /// A value of the graph, or the name of a new input.
  std::string labels;
  /// An initializer with one weight per class; empty without.
  std::string classWeights;
  int64_t ignoreIndex = -100;
  /// The scores of classes are the last dimension of the prediction, not dimension 1.
  bool classesLast = false;
  /// The graph's own loss node that this stands for; empty when the loss is attached.
  std::string node;
};

/// Reads `KIND[:OUTPUT[:LABELS]]`. Empty: what the file's training_info minimises, else the graph's
/// own SoftmaxCrossEntropyLoss or NegativeLogLikelihoodLoss where an output is one, else
/// the first output where that is a number, or cross_entropy on it. A Softmax or LogSoftmax before
/// a cross_entropy that is attached is part of it and left out.
Loss chooseLoss(const Model &model, const std::string &option);

/// The model's integer inputs that are labels only: the prediction does not depend on them.
std::set<std::string> labelInputs(const Model &model, const Loss &loss);

/// As in "cross_entropy of 'logits' with labels 'labels'".
std::string toString(const Loss &loss);

/// Whether it is a sum over what the samples have, perhaps times a number, and no mean: then it
/// depends on how a minibatch is cut.
bool isSum(const Model &model, const Loss &loss);

/// Whether labels are class numbers, so that predictions can be counted as correct.
inline bool hasClasses(const Loss &loss) {
  return loss.kind == LossKind::crossEntropy || loss.kind == LossKind::nll;
}

/// Whether an input or a node of the graph makes this value.
bool isValueOfGraph(const Model &model, const std::string &name);

/// The nodes that the loss depends on, in order.
std::vector<const ModelNode *> nodesOfLoss(const Model &model, const Loss &loss);

} // namespace pdc
