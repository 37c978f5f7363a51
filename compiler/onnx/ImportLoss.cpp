#include "compiler/onnx/ImportFunction.h"

#include "compiler/ir/Conversion.h"
#include "compiler/operators/Rules.h"

using namespace mlir;
using namespace pdc::ir;

namespace pdc {

/// Losses are sums here; what they are divided by is summed beside them.
void FunctionImporter::addLoss() {
  Value prediction = valueOf(loss.prediction, "loss");
  if (loss.kind == LossKind::output) {
    addMetric(prediction, "pdc.loss", "pdc.evaluation_loss");
    addWeight(prediction, {});
    return;
  }
  Value labels = valueOf(loss.labels, "loss");
  if (loss.classesLast)
    flattenSamples(prediction, labels);
  Value classWeights = loss.classWeights.empty() ? Value() : valueOf(loss.classWeights, "loss");
  if (Value present = presentSamples())
    keepPresent(prediction, labels, present);
  addMetric(addLossNode(prediction, labels, classWeights), "pdc.loss", "pdc.evaluation_loss");
  addWeight(labels, classWeights);
  if (entry == Entry::evaluate && classWeights)
    builder.create<AccumulateOp>(function.getLoc(), countOf(labels, {}),
                                 "pdc.evaluation_predictions");
  if (entry == Entry::evaluate && hasClasses(loss))
    builder.create<AccumulateOp>(function.getLoc(),
                                 create({"CorrectPredictions",
                                         names.fresh("correct_predictions"),
                                         {prediction, labels},
                                         {{"ignore_index", loss.ignoreIndex}},
                                         1,
                                         {}})[0],
                                 "pdc.evaluation_correct");
}

static std::string_view operatorOf(LossKind kind) {
  switch (kind) {
  case LossKind::crossEntropy:
    return "SoftmaxCrossEntropyLoss";
  case LossKind::nll:
    return "NegativeLogLikelihoodLoss";
  case LossKind::mse:
    return "MeanSquaredError";
  case LossKind::l1:
    return "MeanAbsoluteError";
  case LossKind::bceWithLogits:
    return "BinaryCrossEntropyWithLogits";
  case LossKind::output:
  case LossKind::none:
    break;
  }
  throw Error("the graph's own outputs need no loss operator");
}

/// Every position of a sample counts as one: scores [positions, classes], labels [positions].
void FunctionImporter::flattenSamples(Value &prediction, Value &labels) {
  prediction = create(
      {"Flatten", names.fresh("flat_scores"), {prediction}, {{"axis", int64_t(-1)}}, 1, {}})[0];
  Tensor whole = Tensor::vector({-1});
  Value shape =
      create({"Constant", names.fresh("flat_shape"), {}, {{"value", whole}}, 1, whole.type})[0];
  labels = create({"Reshape", names.fresh("flat_labels"), {labels, shape}, {}, 1, {}})[0];
}

/// The third result of a cross entropy, its rows' scales, is for the backward pass.
Value FunctionImporter::addLossNode(Value prediction, Value labels, Value classWeights) {
  Attributes attributes = {{"reduction", std::string("sum")}};
  if (hasClasses(loss))
    attributes.set("ignore_index", loss.ignoreIndex);
  std::vector<Value> operands = {prediction, labels};
  if (classWeights)
    operands.push_back(classWeights);
  std::string name = loss.node.empty() ? names.fresh("loss") : loss.node;
  size_t results = loss.kind == LossKind::crossEntropy ? 3 : 1;
  return create({std::string(operatorOf(loss.kind)), name, operands, attributes, results, {}})[0];
}

/// Null in training, whose microbatches are whole, and where labels say what counts.
Value FunctionImporter::presentSamples() {
  const bool isThere = entry == Entry::evaluate && memories.lookup<MemoryOp>(kPresentSamples);
  return isThere ? readMemory(kPresentSamples) : Value();
}

/// Gives other samples a prediction and a target whose loss is zero: of a logit that is far below
/// zero, and the target zero, no digit is left of the loss.
void FunctionImporter::keepPresent(Value &prediction, Value &labels, Value present) {
  auto flagType = toTensorType(present.getType());
  flagType.element = ElementType::boolean;
  Value flags = create({"Cast",
                        names.fresh("is_present"),
                        {present},
                        {{"to", onnxType(ElementType::boolean)}},
                        1,
                        flagType})[0];
  auto keep = [&](Value value, const std::string &name, double otherwise) -> Value {
    Value other = numberConstant(otherwise);
    return create({"Where", names.fresh(name), {flags, value, other}, {}, 1, {}})[0];
  };
  prediction =
      keep(prediction, "present_prediction", loss.kind == LossKind::bceWithLogits ? -10000 : 0);
  labels = keep(labels, "present_target", 0);
}

Value FunctionImporter::numberConstant(double value) {
  Tensor number = Tensor::scalar(ElementType::f32, value);
  return create({"Constant", names.fresh("number"), {}, {{"value", number}}, 1, number.type})[0];
}

/// The part of a microbatch's weight that its present samples have, each the same.
Value FunctionImporter::weightOfPresent(Value weight, Value present) {
  auto count = static_cast<double>(toTensorType(present.getType()).shape[0]);
  Value counted = create({"LossWeight",
                          names.fresh("present_count"),
                          {present},
                          {{"ignore_index", int64_t(0)}},
                          1,
                          {}})[0];
  Value product = create({"Mul", names.fresh("present_weights"), {weight, counted}, {}, 1, {}})[0];
  return create(
      {"Div", names.fresh("present_weight"), {product, numberConstant(count)}, {}, 1, {}})[0];
}

/// Number of labels that count, or the sum of their class weights; of other labels all count. The
/// graph's own loss, in their place, is one number and counts once.
Value FunctionImporter::countOf(Value labels, Value classWeights) {
  Attributes attributes;
  if (hasClasses(loss))
    attributes.set("ignore_index", loss.ignoreIndex);
  std::vector<Value> operands = {labels};
  if (classWeights)
    operands.push_back(classWeights);
  return create({"LossWeight", names.fresh("loss_weight"), operands, attributes, 1, {}})[0];
}

void FunctionImporter::addWeight(Value labels, Value classWeights) {
  Value weight = countOf(labels, classWeights);
  if (Value present = presentSamples())
    weight = weightOfPresent(weight, present);
  addMetric(weight, "pdc.loss_weight", "pdc.evaluation_loss_weight");
}

void FunctionImporter::addMetric(Value value, const std::string &training,
                                 const std::string &evaluation) {
  builder.create<AccumulateOp>(function.getLoc(), value,
                               entry == Entry::train ? training : evaluation);
}

} // namespace pdc
