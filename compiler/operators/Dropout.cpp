#include "compiler/operators/Dropout.h"
#include "compiler/operators/Families.h"
#include "compiler/operators/Random.h"
#include "compiler/operators/Rules.h"

namespace pdc {

/// splitmix64's step.
static uint64_t mix(uint64_t z) {
  z += 0x9E3779B97F4A7C15;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

static uint64_t mixed(uint64_t seed, uint64_t step, uint64_t sample, uint64_t key, uint64_t place) {
  uint64_t h = mix(seed ^ 0x9E3779B97F4A7C15);
  for (uint64_t part : {step, sample, key, place})
    h = mix(h ^ part);
  return h;
}

uint32_t drawBits(uint64_t seed, uint64_t step, uint64_t sample, uint64_t key, uint64_t element) {
  return static_cast<uint32_t>(mixed(seed, step, sample, key, element) >> 32);
}

uint32_t dropoutBits(uint64_t seed, uint64_t step, uint64_t sample, uint64_t key,
                     uint64_t element) {
  return static_cast<uint16_t>(mixed(seed, step, sample, key, element / 4) >> (element % 4 * 16));
}

uint32_t dropoutThreshold(double ratio) { return static_cast<uint32_t>(ratio * 65536 + 0.5); }

/// The form that training runs: input 1 is [seed, step, sample numbers...], attributes are `ratio`
/// and `key`. ONNX's own form (ratio and training_mode as inputs 1 and 2) is the identity here.
static bool isKeyed(const NodeView &node) { return node.attributes.has("key"); }

/// Before opset 12 the ratio was an attribute, and whoever trained dropped.
static void normaliseDropout(ImportedNode &node, int opset) {
  node.attributes.erase("seed");
  if (opset >= 12)
    return;
  double ratio = node.attributes.number("ratio", 0.5);
  node.attributes.erase("ratio");
  setInput(node, 1, node.addConstant(Tensor::scalar(ElementType::f32, ratio)));
  setInput(node, 2, node.addConstant(Tensor::scalar(ElementType::boolean, 1)));
}

static void checkKeyed(const NodeView &node) {
  double ratio = node.attributes.number("ratio", 0.5);
  if (!(ratio >= 0 && ratio < 1))
    refuse(node, "ratio is " + std::to_string(ratio) + ", expected at least 0 and below 1");
  const TensorType &x = node.input(0), &random = node.input(1);
  if (x.rank() < 1 || random.rank() != 1 || random.shape[0] < 3)
    refuse(node, "random numbers " + random.toString() + " do not fit input " + x.toString() +
                     ": expected seed, step and one number per sample");
}

static std::vector<TensorType> inferDropout(const NodeView &node) {
  if (isKeyed(node))
    checkKeyed(node);
  std::vector<TensorType> types = {node.input(0), {ElementType::boolean, node.input(0).shape}};
  types.resize(isKeyed(node) ? 1 : std::min<size_t>(2, node.outputCount));
  return types;
}

static Tensor dropped(const NodeView &node, std::span<const Tensor *const> inputs) {
  Tensor y = *inputs[0];
  double ratio = node.attributes.number("ratio", 0.5);
  const uint32_t threshold = dropoutThreshold(ratio);
  uint64_t key = static_cast<uint64_t>(node.attributes.integer("key", 0));
  const int64_t perSample = samplesAndElements(y.type.shape, inputs[1]->type)[1];
  auto random = inputs[1]->toIntegers();
  for (size_t i = 0; i < y.data.size(); ++i) {
    uint32_t bits =
        dropoutBits(random[0], random[1], random[2 + i / perSample], key, i % perSample);
    y.data[i] = bits >= threshold ? y.data[i] / (1 - ratio) : 0;
  }
  return y;
}

static std::vector<Tensor> evaluateDropout(const NodeView &node,
                                           std::span<const Tensor *const> inputs) {
  if (isKeyed(node))
    return {dropped(node, inputs)};
  bool training = inputs.size() > 2 && inputs[2] && inputs[2]->data.at(0) != 0;
  bool zeroRatio = inputs.size() > 1 && inputs[1] && inputs[1]->data.at(0) == 0;
  if (training && !zeroRatio)
    refuse(node, "draws no random numbers in ONNX's form");
  std::vector<Tensor> results = {*inputs[0],
                                 Tensor::zeros({ElementType::boolean, inputs[0]->type.shape})};
  results[1].data.assign(results[1].data.size(), 1);
  results.resize(std::min<size_t>(2, node.outputCount));
  return results;
}

static void differentiateDropout(GradientBuilder &b) {
  if (!b.wants(0))
    return;
  if (!b.attributes().has("key")) {
    b.setInputGradient(0, b.outputGradient(0));
    return;
  }
  b.setInputGradient(0, add(b, "DropoutGrad", {b.outputGradient(0), b.input(1)}, b.attributes()));
}

static std::vector<TensorType> inferDropoutGrad(const NodeView &node) {
  checkKeyed(node);
  return {node.input(0)};
}

static std::vector<Tensor> evaluateDropoutGrad(const NodeView &node,
                                               std::span<const Tensor *const> inputs) {
  return {dropped(node, inputs)};
}

std::span<const Operator> dropoutOperators() {
  static const Operator operators[] = {
      {.name = "Dropout",
       .firstOpset = kFirstOpset,
       .lastOpset = kLastOpset,
       .inputs = {{"data"}, {"ratio or random", true}, {"training_mode", true}},
       .outputs = {{"output"}, {"mask", true}},
       .elements = floatElements(),
       .normalise = normaliseDropout,
       .infer = inferDropout,
       .evaluate = evaluateDropout,
       .differentiate = differentiateDropout},
      {.name = "DropoutGrad",
       .inputs = {{"dY"}, {"random"}},
       .outputs = {{"dX"}},
       .infer = inferDropoutGrad,
       .evaluate = evaluateDropoutGrad},
  };
  return operators;
}

} // namespace pdc
