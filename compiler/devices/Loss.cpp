#include "compiler/devices/UnitReader.h"
#include "compiler/operators/Rules.h"

namespace pdc {

namespace {

/// The shape of labelled rows: scores are [samples, classes, pixels...].
void setRows(KernelChoice &choice, const std::vector<int64_t> &scores) {
  choice.fields.set("classes", scores.at(1));
  choice.fields.set("pixels", product(scores, 2));
  choice.fields.set("samples", scores[0]);
}

void setIgnored(KernelChoice &choice, const UnitNode &node) {
  if (!node.attributes->has("ignore_index"))
    return;
  choice.fields.set("ignoreIndex", node.attributes->integer("ignore_index", 0));
  choice.fields.set("ignores", int64_t(1));
}

/// [Cast +] loss, loss gradient [+ Cast].
const UnitNode &lossOf(const UnitReader &reader) {
  return reader.node(reader.node(0).op == "Cast" ? 1 : 0);
}

void addAll(KernelChoice &choice, const UnitReader &reader, const UnitNode &node) {
  for (size_t i = 0; i < node.inputs.size(); ++i)
    if (reader.hasInput(node, i)) {
      const bool isCast = i == 0 && &node != &reader.node(0);
      addArgument(choice, reader, isCast ? reader.node(0) : node, i);
    }
}

void checkReduction(const UnitReader &reader, const UnitNode &node) {
  std::string reduction = node.attributes->string("reduction", "mean");
  if (reduction != "sum")
    reader.refuse("reduction '" + reduction + "' has no kernel; losses are sums here");
}

/// Class weights are an argument where there are none, too. The gradient may take the scores'
/// place.
void setCrossEntropy(KernelChoice &choice, const UnitReader &reader, const UnitNode &node) {
  const bool isGradient = node.op.ends_with("Grad");
  if (!reader.hasInput(node, isGradient ? 4 : 2)) {
    choice.arguments.push_back(-1);
    choice.inputLayouts.push_back("");
  }
  if (isGradient)
    choice.inPlace = {{0, 0}};
  else
    choice.fields.set("results", reader.resultSlots(node));
}

struct LabelledLoss {
  std::string_view op, kernel;
  size_t scores; ///< which input has their shape; 9: result 0
  bool reduces;
};

constexpr LabelledLoss kLabelledLosses[] = {
    {"SoftmaxCrossEntropyLoss", "SoftmaxCrossEntropy", 0, true},
    {"SoftmaxCrossEntropyLossGrad", "SoftmaxCrossEntropyGradient", 0, true},
    {"NegativeLogLikelihoodLoss", "NegativeLogLikelihood", 0, true},
    {"NegativeLogLikelihoodLossGrad", "NegativeLogLikelihoodGradient", 9, true},
    {"CorrectPredictions", "CorrectPredictions", 0, false},
};

KernelChoice chooseLabelled(const UnitReader &reader, const LabelledLoss &loss) {
  const UnitNode &node = lossOf(reader);
  if (loss.reduces)
    checkReduction(reader, node);
  KernelChoice choice;
  choice.kernel = loss.kernel;
  setRows(choice,
          loss.scores == 9 ? node.outputs[0].shape : reader.inputType(node, loss.scores).shape);
  setIgnored(choice, node);
  addAll(choice, reader, node);
  if (node.op.starts_with("SoftmaxCrossEntropyLoss"))
    setCrossEntropy(choice, reader, node);
  choice.outputLayouts.assign(reader.unit.results.size(), "");
  return choice;
}

KernelChoice chooseLossWeight(const UnitReader &reader) {
  const UnitNode &node = reader.node(0);
  KernelChoice choice;
  choice.kernel = "LossWeight";
  if (reader.hasInput(node, 1))
    choice.fields.set("classes", reader.inputType(node, 1).elementCount());
  choice.fields.set("count", reader.inputType(node, 0).elementCount());
  setIgnored(choice, node);
  addAll(choice, reader, node);
  choice.outputLayouts = {""};
  return choice;
}

/// Losses of prediction and target: squared, absolute, binary cross entropy; and their gradients.
KernelChoice choosePair(const UnitReader &reader) {
  const UnitNode &node = reader.node(0);
  std::string kind(node.op);
  bool isGradient = kind.ends_with("Grad");
  if (isGradient)
    kind.resize(kind.size() - 4);
  else if (node.attributes->string("reduction", "sum") != "sum")
    checkReduction(reader, node);
  KernelChoice choice;
  choice.kernel = isGradient ? "PairLossGradient" : "PairLoss";
  choice.fields = {{"count", reader.inputType(node, 0).elementCount()}, {"kind", kind}};
  addAll(choice, reader, node);
  choice.outputLayouts = {""};
  return choice;
}

} // namespace

KernelChoice chooseLoss(const UnitReader &reader) {
  const UnitNode &node = lossOf(reader);
  for (const LabelledLoss &loss : kLabelledLosses)
    if (loss.op == node.op)
      return chooseLabelled(reader, loss);
  return node.op == "LossWeight" ? chooseLossWeight(reader) : choosePair(reader);
}

KernelChoice chooseSoftmax(const UnitReader &reader) {
  const UnitNode &node = reader.node(0);
  const std::vector<int64_t> &shape = node.outputs[0].shape;
  int64_t axis = axisFromStart(reader.view(node), node.attributes->integer("axis", -1),
                               static_cast<int64_t>(shape.size()));
  bool flatten = node.attributes->integer("flatten", 0) != 0;
  KernelChoice choice;
  const bool isGradient = node.op.ends_with("Grad");
  choice.kernel = isGradient ? "SoftmaxGradient" : "Softmax";
  choice.fields = {{"inner", flatten ? int64_t(1) : product(shape, axis + 1)},
                   {"logarithm", int64_t(node.op.starts_with("Log"))},
                   {"outer", product(shape, 0, axis)},
                   {"size", flatten ? product(shape, axis) : shape[axis]}};
  addAll(choice, reader, node);
  choice.outputLayouts = {""};
  return choice;
}

} // namespace pdc
