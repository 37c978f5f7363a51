#include "compiler/operators/Families.h"
#include "compiler/operators/Rules.h"

#include <cmath>

namespace pdc {

/// GroupNormalization: neighbouring channels of a sample are normalised together, then scaled and
/// shifted channel by channel. Scale and bias may be left out. Attribute `swish`, which the
/// compiler sets: what is made is y sigmoid(y), and nobody needs y.

/// The gradient needs the mean and the inverse deviation of each group.
static void normaliseGroups(ImportedNode &node, int opset) {
  if (int64_t type = node.attributes.integer("stash_type", 1); type != 1)
    refuse(node, opset, "stash_type is " + std::to_string(type) + ", expected 1 (float32)");
  node.attributes.erase("stash_type");
  node.attributes.set("epsilon", node.attributes.number("epsilon", 1e-5));
  node.outputs.resize(3);
}

namespace {

/// Element i belongs to channel i / pixels % channels, which is scaled, and to group i / size,
/// which is normalised.
struct Groups {
  int64_t samples, channels, pixels, groups, size;

  Groups(const NodeView &node, const TensorType &x) {
    groups = node.attributes.integer("num_groups", 0);
    if (x.rank() < 2 || groups < 1 || x.shape[1] % groups != 0)
      refuse(node,
             "input " + x.toString() + " has no channels in " + std::to_string(groups) + " groups");
    samples = x.shape[0];
    channels = x.shape[1];
    pixels = product(x.shape, 2);
    size = channels / groups * pixels;
    if (size == 0)
      refuse(node, "groups of " + x.toString() + " are empty");
  }
  size_t groupOf(size_t i) const { return i / static_cast<size_t>(size); }
  size_t channelOf(size_t i) const {
    return i / static_cast<size_t>(pixels) % static_cast<size_t>(channels);
  }
  std::vector<int64_t> statistics() const { return {samples, groups}; }
};

/// What is scaled and shifted, and what is made of it.
struct Finish {
  const Tensor *scale, *bias; ///< null: left out
  bool swish;

  double scaleOf(size_t channel) const { return scale ? scale->data[channel] : 1; }
  double shifted(double hat, size_t channel) const {
    return hat * scaleOf(channel) + (bias ? bias->data[channel] : 0);
  }
  double value(double hat, size_t channel) const {
    const double y = shifted(hat, channel);
    return swish ? y / (1 + std::exp(-y)) : y;
  }
  /// By what a gradient is multiplied on its way to y.
  double slope(double hat, size_t channel) const {
    const double y = shifted(hat, channel), gate = 1 / (1 + std::exp(-y));
    return swish ? gate * (1 + y * (1 - gate)) : 1;
  }
};

void checkChannels(const NodeView &node, const Groups &groups, size_t input) {
  if (node.hasInput(input) && node.input(input).shape != std::vector{groups.channels})
    refuse(node, "input " + std::to_string(input) + " is " + node.input(input).toString() +
                     ", expected one number for each of " + std::to_string(groups.channels) +
                     " channels");
}

const Tensor *given(std::span<const Tensor *const> inputs, size_t i) {
  return i < inputs.size() ? inputs[i] : nullptr;
}

bool hasSwish(const NodeView &node) { return node.attributes.integer("swish", 0) != 0; }

} // namespace

static std::vector<TensorType> inferGroupNormalization(const NodeView &node) {
  const TensorType &x = node.input(0);
  const Groups groups(node, x);
  checkChannels(node, groups, 1);
  checkChannels(node, groups, 2);
  const TensorType statistic{sumElement(x.element), groups.statistics()};
  return {x, statistic, statistic};
}

static std::vector<Tensor> evaluateGroupNormalization(const NodeView &node,
                                                      std::span<const Tensor *const> inputs) {
  const Tensor &x = *inputs[0];
  const Groups groups(node, x.type);
  const double epsilon = node.attributes.number("epsilon", 1e-5);
  const double size = static_cast<double>(groups.size);
  const Finish finish{given(inputs, 1), given(inputs, 2), hasSwish(node)};
  Tensor y = x, mean = Tensor::zeros(inferGroupNormalization(node)[1]), inverse = mean;
  for (size_t i = 0; i < x.data.size(); ++i)
    mean.data[groups.groupOf(i)] += x.data[i] / size;
  for (size_t i = 0; i < x.data.size(); ++i) // the variance, until the next loop
    inverse.data[groups.groupOf(i)] += std::pow(x.data[i] - mean.data[groups.groupOf(i)], 2) / size;
  for (double &value : inverse.data)
    value = 1 / std::sqrt(value + epsilon);
  for (size_t i = 0; i < x.data.size(); ++i) {
    const size_t g = groups.groupOf(i);
    y.data[i] = finish.value((x.data[i] - mean.data[g]) * inverse.data[g], groups.channelOf(i));
  }
  return {y, mean, inverse};
}

/// One node for the three gradients: the input's needs the sums that the weights' are.
static void differentiateGroupNormalization(GradientBuilder &b) {
  if (b.outputGradient(1) || b.outputGradient(2))
    throw Error("the mean and the deviation of a normalisation have no gradient");
  auto input = [&](size_t i) { return i < b.inputCount() ? b.input(i) : GradientValue(); };
  auto wants = [&](size_t i) { return input(i) && b.wants(i); };
  if (!wants(0) && !wants(1) && !wants(2))
    return;
  const std::vector<GradientValue> gradients =
      b.node("GroupNormalizationGrad",
             {b.outputGradient(0), b.input(0), input(1), input(2), b.output(1), b.output(2)},
             b.attributes(), 3);
  for (size_t i = 0; i < 3; ++i)
    if (wants(i))
      b.setInputGradient(i, gradients[i]);
}

static std::vector<TensorType> inferGroupGrad(const NodeView &node) {
  const TensorType &x = node.input(1);
  const Groups groups(node, x);
  if (node.input(0) != x)
    refuse(node, "gradient " + node.input(0).toString() + " of input " + x.toString());
  checkChannels(node, groups, 2);
  checkChannels(node, groups, 3);
  for (size_t i : {4, 5})
    if (node.input(i).shape != groups.statistics())
      refuse(node, "input " + std::to_string(i) + " is " + node.input(i).toString() +
                       ", expected one number per group");
  const TensorType ofChannels{sumElement(x.element), {groups.channels}};
  return {x, ofChannels, ofChannels};
}

/// With g what arrives at y and h the normalised x: dscale = sum(g h), dbias = sum(g), and
/// dx = inverse (g scale - mean(g scale) - h mean(g scale h)).
static std::vector<Tensor> evaluateGroupGrad(const NodeView &node,
                                             std::span<const Tensor *const> inputs) {
  const Tensor &dy = *inputs[0], &x = *inputs[1], &mean = *inputs[4], &inverse = *inputs[5];
  const Groups groups(node, x.type);
  const Finish finish{inputs[2], inputs[3], hasSwish(node)};
  const double size = static_cast<double>(groups.size);
  Tensor dx = Tensor::zeros(x.type), dscale = Tensor::zeros(inferGroupGrad(node)[1]),
         dbias = dscale;
  std::vector<double> sum(mean.data.size()), product = sum;
  auto hat = [&](size_t i) {
    return (x.data[i] - mean.data[groups.groupOf(i)]) * inverse.data[groups.groupOf(i)];
  };
  auto arriving = [&](size_t i) { return dy.data[i] * finish.slope(hat(i), groups.channelOf(i)); };
  for (size_t i = 0; i < x.data.size(); ++i) {
    const size_t c = groups.channelOf(i), g = groups.groupOf(i);
    dbias.data[c] += arriving(i);
    dscale.data[c] += arriving(i) * hat(i);
    sum[g] += arriving(i) * finish.scaleOf(c) / size;
    product[g] += arriving(i) * finish.scaleOf(c) * hat(i) / size;
  }
  for (size_t i = 0; i < x.data.size(); ++i) {
    const size_t c = groups.channelOf(i), g = groups.groupOf(i);
    dx.data[i] = inverse.data[g] * (arriving(i) * finish.scaleOf(c) - sum[g] - hat(i) * product[g]);
  }
  return {dx, dscale, dbias};
}

static Cost costGroups(const NodeView &node, std::span<const TensorType> outputs) {
  Cost cost;
  for (const TensorType *type : node.inputs)
    cost.bytes += type ? type->bytes() : 0;
  for (const TensorType &type : outputs)
    cost.bytes += type.bytes();
  cost.flops = (hasSwish(node) ? 16.0 : 8.0) * node.input(0).elementCount();
  return cost;
}

std::span<const Operator> groupNormalizationOperators() {
  static const Operator operators[] = {
      {.name = "GroupNormalization",
       .firstOpset = 18,
       .lastOpset = kLastOpset,
       .inputs = {{"X"}, {"scale", true}, {"bias", true}},
       .outputs = {{"Y"}, {"Mean", true}, {"InvStdDev", true}},
       .elements = floatElements(),
       .normalise = normaliseGroups,
       .infer = inferGroupNormalization,
       .evaluate = evaluateGroupNormalization,
       .differentiate = differentiateGroupNormalization,
       .cost = costGroups},
      {.name = "GroupNormalizationGrad",
       .inputs = {{"dY"}, {"X"}, {"scale", true}, {"bias", true}, {"Mean"}, {"InvStdDev"}},
       .outputs = {{"dX"}, {"dScale"}, {"dB"}},
       .infer = inferGroupGrad,
       .evaluate = evaluateGroupGrad,
       .cost = costGroups},
  };
  return operators;
}

} // namespace pdc
