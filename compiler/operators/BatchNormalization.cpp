#include "compiler/operators/Families.h"
#include "compiler/operators/Rules.h"

#include <cmath>

namespace pdc {

/// Element i of an NC... tensor belongs to channel i / pixels % channels.
struct Channels {
  int64_t pixels, count;
  explicit Channels(const TensorType &x) : pixels(product(x.shape, 2)), count(x.shape[1]) {}
  int64_t operator()(size_t i) const { return static_cast<int64_t>(i) / pixels % count; }
};

/// Opset 7 and 8 could normalise per activation; up to 13 a second output meant training. From 14
/// on the attribute says so and the saved statistics are no longer outputs.
static void normaliseBatchNormalization(ImportedNode &node, int opset) {
  if (node.attributes.integer("spatial", 1) != 1)
    refuse(node, opset, "attribute 'spatial' is 0; supported is 1 (statistics per channel)");
  node.attributes.erase("spatial");
  if (opset < 14) {
    bool training = node.outputs.size() > 1 && !node.outputs[1].empty();
    node.attributes.set("training_mode", int64_t(training));
    node.outputs.resize(training ? std::min<size_t>(3, node.outputs.size()) : 1);
  }
  node.attributes.set("training_mode", node.attributes.integer("training_mode", 0));
  node.attributes.set("epsilon", node.attributes.number("epsilon", 1e-5));
  node.attributes.set("momentum", node.attributes.number("momentum", 0.9));
}

static void checkStatistics(const NodeView &node) {
  const TensorType &x = node.input(0);
  if (x.rank() < 2)
    refuse(node, "input " + x.toString() + ", expected batch and channels at least");
  for (size_t i = 1; i < 5; ++i)
    if (node.input(i).shape != std::vector<int64_t>{x.shape[1]})
      refuse(node, "input " + std::to_string(i) + " is " + node.input(i).toString() +
                       ", expected one value for each of " + std::to_string(x.shape[1]) +
                       " channels");
}

static std::vector<TensorType> inferBatchNormalization(const NodeView &node) {
  checkStatistics(node);
  std::vector<TensorType> types = {node.input(0), node.input(3), node.input(4)};
  if (node.outputCount > 1 && !node.attributes.integer("training_mode", 0))
    refuse(node, "has running statistics as outputs without training_mode");
  types.resize(std::min<size_t>(3, node.outputCount));
  return types;
}

struct Statistics {
  std::vector<double> mean, variance; ///< population variance
};

static Statistics batchStatistics(const Tensor &x) {
  Channels channel(x.type);
  double samples = static_cast<double>(x.data.size()) / channel.count;
  Statistics s{std::vector<double>(channel.count), std::vector<double>(channel.count)};
  for (size_t i = 0; i < x.data.size(); ++i)
    s.mean[channel(i)] += x.data[i] / samples;
  for (size_t i = 0; i < x.data.size(); ++i)
    s.variance[channel(i)] += std::pow(x.data[i] - s.mean[channel(i)], 2) / samples;
  return s;
}

static Tensor normalised(const NodeView &node, std::span<const Tensor *const> inputs,
                         const Statistics &s) {
  Tensor y = *inputs[0];
  Channels channel(y.type);
  double epsilon = node.attributes.number("epsilon", 1e-5);
  for (size_t i = 0; i < y.data.size(); ++i) {
    int64_t c = channel(i);
    y.data[i] = (y.data[i] - s.mean[c]) / std::sqrt(s.variance[c] + epsilon) * inputs[1]->data[c] +
                inputs[2]->data[c];
  }
  return y;
}

static Tensor running(const NodeView &node, const Tensor &before,
                      const std::vector<double> &batch) {
  double momentum = node.attributes.number("momentum", 0.9);
  Tensor after = before;
  for (size_t c = 0; c < batch.size(); ++c)
    after.data[c] = momentum * before.data[c] + (1 - momentum) * batch[c];
  return after;
}

static std::vector<Tensor> evaluateBatchNormalization(const NodeView &node,
                                                      std::span<const Tensor *const> inputs) {
  if (!node.attributes.integer("training_mode", 0))
    return {normalised(node, inputs, {inputs[3]->data, inputs[4]->data})};
  Statistics s = batchStatistics(*inputs[0]);
  std::vector<Tensor> results = {normalised(node, inputs, s), running(node, *inputs[3], s.mean),
                                 running(node, *inputs[4], s.variance)};
  results.resize(std::min<size_t>(3, node.outputCount));
  return results;
}

/// One value per channel, as it stands beside X.
static GradientValue besideInput(GradientBuilder &b, GradientValue channels) {
  std::vector<int64_t> shape(b.type(b.input(0)).shape.size(), 1);
  shape[1] = b.type(channels).shape[0];
  return reshaped(b, channels, shape);
}

/// Of a node that normalises by its operands 3 and 4: Y = (X - mean) inverse scale + B. The scale's
/// gradient sums what is centred, since sums of X cancel where the mean is large.
static void differentiateInference(GradientBuilder &b) {
  const GradientValue dy = b.outputGradient(0), x = b.input(0), scale = b.input(1);
  const TensorType channels = b.type(scale);
  auto toChannels = [&](GradientValue value) {
    std::vector<int64_t> shape(b.type(x).shape.size(), 1);
    shape[1] = channels.shape[0];
    return reshaped(b, reducedTo(b, value, shape), channels.shape);
  };
  auto number = [&](double value) { return b.constant(Tensor::scalar(channels.element, value)); };
  const GradientValue epsilon = number(b.attributes().number("epsilon", 1e-5));
  const GradientValue inverse =
      add(b, "Reciprocal", {add(b, "Sqrt", {add(b, "Add", {b.input(4), epsilon})})});
  const GradientValue factor = add(b, "Mul", {scale, inverse});
  if (b.wants(0))
    b.setInputGradient(0, add(b, "Mul", {dy, besideInput(b, factor)}));
  if (b.wants(2))
    b.setInputGradient(2, toChannels(dy));
  if (b.wants(3))
    b.setInputGradient(3, add(b, "Neg", {add(b, "Mul", {toChannels(dy), factor})}));
  if (!b.wants(1) && !b.wants(4))
    return;
  const GradientValue centred = add(b, "Sub", {x, besideInput(b, b.input(3))});
  const GradientValue ofScale = add(b, "Mul", {toChannels(add(b, "Mul", {dy, centred})), inverse});
  if (b.wants(1))
    b.setInputGradient(1, ofScale);
  if (b.wants(4)) {
    const GradientValue square = add(b, "Mul", {inverse, factor});
    b.setInputGradient(4, add(b, "Mul", {add(b, "Mul", {ofScale, square}), number(-0.5)}));
  }
}

static std::vector<TensorType> inferBatchNormInternal(const NodeView &node) {
  checkStatistics(node);
  const TensorType &mean = node.input(3);
  return {node.input(0), mean, mean, mean, mean};
}

static std::vector<Tensor> evaluateBatchNormInternal(const NodeView &node,
                                                     std::span<const Tensor *const> inputs) {
  Statistics s = batchStatistics(*inputs[0]);
  double epsilon = node.attributes.number("epsilon", 1e-5);
  Tensor mean{inputs[3]->type, s.mean}, inverse{inputs[3]->type, s.variance};
  for (double &value : inverse.data)
    value = 1 / std::sqrt(value + epsilon);
  return {normalised(node, inputs, s), running(node, *inputs[3], s.mean),
          running(node, *inputs[4], s.variance), mean, inverse};
}

/// One node for the three gradients: the input's needs the sums that the weights' are.
static void differentiateBatchNormInternal(GradientBuilder &b) {
  if (!b.wants(0) && !b.wants(1) && !b.wants(2))
    return;
  std::vector<GradientValue> gradients =
      b.node("BatchNormalizationGrad",
             {b.outputGradient(0), b.input(0), b.input(1), b.output(3), b.output(4)}, {}, 3);
  for (size_t i = 0; i < 3; ++i)
    if (b.wants(i))
      b.setInputGradient(i, gradients[i]);
}

static std::vector<TensorType> inferBatchNormApply(const NodeView &node) {
  checkStatistics(node);
  return {node.input(0)};
}

/// By what a BatchNormInternal saved.
static std::vector<Tensor> evaluateBatchNormApply(const NodeView &,
                                                  std::span<const Tensor *const> inputs) {
  Tensor y = *inputs[0];
  Channels channel(y.type);
  for (size_t i = 0; i < y.data.size(); ++i) {
    const int64_t c = channel(i);
    const double hat = (y.data[i] - inputs[3]->data[c]) * inputs[4]->data[c];
    y.data[i] = hat * inputs[1]->data[c] + inputs[2]->data[c];
  }
  return {y};
}

static std::vector<TensorType> inferGrad(const NodeView &node) {
  if (node.input(0) != node.input(1) || node.input(1).rank() < 2)
    refuse(node, "gradient " + node.input(0).toString() + " of input " + node.input(1).toString());
  for (size_t i = 2; i < 5; ++i)
    if (node.input(i).shape != std::vector<int64_t>{node.input(1).shape[1]})
      refuse(node, "input " + std::to_string(i) + " is " + node.input(i).toString() +
                       ", expected one value per channel");
  return {node.input(1), node.input(2), node.input(2)};
}

static std::vector<Tensor> evaluateGrad(const NodeView &, std::span<const Tensor *const> inputs) {
  const Tensor &dy = *inputs[0], &x = *inputs[1], &scale = *inputs[2], &mean = *inputs[3],
               &inverse = *inputs[4];
  Tensor dx = Tensor::zeros(x.type), dscale = Tensor::zeros(scale.type), dbias = dscale;
  Channels channel(x.type);
  double samples = static_cast<double>(x.data.size()) / channel.count;
  auto hat = [&](size_t i) {
    return (x.data[i] - mean.data[channel(i)]) * inverse.data[channel(i)];
  };
  for (size_t i = 0; i < x.data.size(); ++i) {
    dbias.data[channel(i)] += dy.data[i];
    dscale.data[channel(i)] += dy.data[i] * hat(i);
  }
  for (size_t i = 0; i < x.data.size(); ++i) {
    int64_t c = channel(i);
    dx.data[i] = scale.data[c] * inverse.data[c] *
                 (dy.data[i] - (dbias.data[c] + hat(i) * dscale.data[c]) / samples);
  }
  return {dx, dscale, dbias};
}

std::span<const Operator> normalisationOperators() {
  static const std::vector<Parameter> inputs = {{"X"}, {"scale"}, {"B"}, {"mean"}, {"var"}};
  static const Operator operators[] = {
      {.name = "BatchNormalization",
       .firstOpset = kFirstOpset,
       .lastOpset = kLastOpset,
       .inputs = inputs,
       .outputs = {{"Y"}, {"running_mean", true}, {"running_var", true}},
       .elements = floatElements(),
       .normalise = normaliseBatchNormalization,
       .infer = inferBatchNormalization,
       .evaluate = evaluateBatchNormalization,
       .differentiate = differentiateInference},
      {.name = "BatchNormInternal",
       .inputs = inputs,
       .outputs = {{"Y"}, {"running_mean"}, {"running_var"}, {"saved_mean"}, {"saved_inv_std"}},
       .infer = inferBatchNormInternal,
       .evaluate = evaluateBatchNormInternal,
       .differentiate = differentiateBatchNormInternal},
      {.name = "BatchNormApply",
       .inputs = {{"X"}, {"scale"}, {"B"}, {"saved_mean"}, {"saved_inv_std"}},
       .outputs = {{"Y"}},
       .infer = inferBatchNormApply,
       .evaluate = evaluateBatchNormApply},
      {.name = "BatchNormalizationGrad",
       .inputs = {{"dY"}, {"X"}, {"scale"}, {"saved_mean"}, {"saved_inv_std"}},
       .outputs = {{"dX"}, {"dScale"}, {"dB"}},
       .infer = inferGrad,
       .evaluate = evaluateGrad},
  };
  return operators;
}

} // namespace pdc
