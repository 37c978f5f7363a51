#include "compiler/operators/Random.h"

#include "compiler/operators/Composition.h"
#include "compiler/operators/Dropout.h"
#include "compiler/operators/Families.h"
#include "compiler/operators/Rules.h"

#include <algorithm>
#include <cmath>
#include <numbers>

/// ONNX's random operators: all are made of UniformRandom, whose numbers are those of Dropout,
/// keyed by seed, step, sample, node and element, so that no split and no recomputation changes
/// them; `samplesAndElements` says for which shapes the number of microbatches does not either.
namespace pdc {

static constexpr std::string_view kRandomOperators[] = {
    "Bernoulli", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"};

bool alwaysDraws(std::string_view op) {
  return std::ranges::find(kRandomOperators, op) != std::end(kRandomOperators);
}

bool drawsNumbers(std::string_view op) { return op == "Dropout" || alwaysDraws(op); }

// UniformRandom

/// Rows of the result per sample: 0 where its rows are not those of samples.
static int64_t rowsPerSample(const std::vector<int64_t> &shape, const TensorType &random) {
  const int64_t samples = random.elementCount() - 2;
  return !shape.empty() && samples > 0 && shape[0] % samples == 0 ? shape[0] / samples : 0;
}

std::vector<int64_t> samplesAndElements(const std::vector<int64_t> &shape,
                                        const TensorType &random) {
  const int64_t rows = rowsPerSample(shape, random);
  return rows ? std::vector<int64_t>{shape[0] / rows, rows * product(shape, 1)}
              : std::vector<int64_t>{1, product(shape)};
}

static std::vector<TensorType> inferUniform(const NodeView &node) {
  const TensorType &random = node.input(0);
  if (random.rank() != 1 || random.shape[0] < 3)
    refuse(node, "random numbers " + random.toString() +
                     ": expected seed, step and one number per sample");
  return {{ElementType::f32, node.attributes.integers("shape")}};
}

/// Multiples of 2^-24 from 0 to below 1.
static std::vector<Tensor> evaluateUniform(const NodeView &node,
                                           std::span<const Tensor *const> inputs) {
  Tensor y = Tensor::zeros(inferUniform(node)[0]);
  const std::vector<int64_t> random = inputs[0]->toIntegers();
  const int64_t each = samplesAndElements(y.type.shape, inputs[0]->type)[1];
  const uint64_t key = static_cast<uint64_t>(node.attributes.integer("key", 0));
  for (size_t i = 0; i < y.data.size(); ++i) {
    const int64_t at = static_cast<int64_t>(i);
    y.data[i] =
        (drawBits(random[0], random[1], random[2 + at / each], key, at % each) >> 8) * 0x1p-24;
  }
  return {y};
}

std::span<const Operator> randomOperators() {
  static const Operator operators[] = {
      {.name = "UniformRandom",
       .inputs = {{"random"}},
       .outputs = {{"Y"}},
       .elements = {ElementType::i64},
       .infer = inferUniform,
       .evaluate = evaluateUniform,
       .stopsGradient = true},
  };
  return operators;
}

// What ONNX has

/// The seed of a run is pdc's own.
static void normaliseRandom(ImportedNode &node, int) { node.attributes.erase("seed"); }

/// Where only shapes are asked for there are no random numbers yet.
static NodeValue uniform(CompositionBuilder &b, size_t randomInput,
                         const std::vector<int64_t> &shape, uint64_t stream) {
  NodeValue random = b.input(randomInput);
  if (!random)
    random = b.constant(Tensor::vector({0, 0, 0}));
  // Odd multiples: streams of one node differ from each other.
  const uint64_t key =
      static_cast<uint64_t>(b.attributes().integer("key", 0)) + stream * 0xD1342543DE82EF95;
  return add(b, "UniformRandom", {random}, {{"key", static_cast<int64_t>(key)}, {"shape", shape}});
}

static NodeValue scaled(CompositionBuilder &b, NodeValue x, double factor, double offset) {
  return add(b, "Add",
             {add(b, "Mul", {x, number(b, ElementType::f32, factor)}),
              number(b, ElementType::f32, offset)});
}

/// From low to high: both, where rounding makes it so.
static NodeValue uniformBetween(CompositionBuilder &b, size_t randomInput,
                                const std::vector<int64_t> &shape) {
  const double low = b.attributes().number("low", 0), high = b.attributes().number("high", 1);
  return scaled(b, uniform(b, randomInput, shape, 0), high - low, low);
}

/// By the method of Box and Muller; 1 - u is never 0.
static NodeValue normal(CompositionBuilder &b, size_t randomInput,
                        const std::vector<int64_t> &shape) {
  NodeValue positive = scaled(b, uniform(b, randomInput, shape, 0), -1, 1);
  NodeValue twice = add(b, "Mul", {add(b, "Log", {positive}), number(b, ElementType::f32, -2)});
  NodeValue angle =
      add(b, "Mul",
          {uniform(b, randomInput, shape, 1), number(b, ElementType::f32, 2 * std::numbers::pi)});
  NodeValue z = add(b, "Mul", {add(b, "Sqrt", {twice}), add(b, "Cos", {angle})});
  return scaled(b, z, b.attributes().number("scale", 1), b.attributes().number("mean", 0));
}

static std::vector<NodeValue> typed(CompositionBuilder &b, NodeValue y, ElementType otherwise) {
  const int64_t type = b.attributes().integer("dtype", onnxType(otherwise));
  return {type == onnxType(ElementType::f32) ? y : add(b, "Cast", {y}, {{"to", type}})};
}

static std::vector<int64_t> givenShape(CompositionBuilder &b) {
  const std::vector<int64_t> shape = b.attributes().integers("shape");
  for (int64_t size : shape)
    if (size < 1 || size > int64_t(1) << 40)
      b.refuse("shape is " + shapeText(shape) + ", expected sizes of at least 1");
  return shape;
}

static std::vector<NodeValue> composeRandomUniform(CompositionBuilder &b) {
  return typed(b, uniformBetween(b, 0, givenShape(b)), ElementType::f32);
}

static std::vector<NodeValue> composeRandomNormal(CompositionBuilder &b) {
  return typed(b, normal(b, 0, givenShape(b)), ElementType::f32);
}

static std::vector<NodeValue> composeRandomUniformLike(CompositionBuilder &b) {
  const TensorType like = b.type(b.input(0));
  return typed(b, uniformBetween(b, 1, like.shape), like.element);
}

static std::vector<NodeValue> composeRandomNormalLike(CompositionBuilder &b) {
  const TensorType like = b.type(b.input(0));
  return typed(b, normal(b, 1, like.shape), like.element);
}

/// 1 with the probability that the input says: no number below 1 is beyond a probability of 1.
static std::vector<NodeValue> composeBernoulli(CompositionBuilder &b) {
  const TensorType like = b.type(b.input(0));
  NodeValue chance = b.input(0);
  if (like.element != ElementType::f32)
    chance = add(b, "Cast", {chance}, {{"to", onnxType(ElementType::f32)}});
  NodeValue hit = add(b, "Less", {uniform(b, 1, like.shape, 0), chance});
  return {add(b, "Cast", {hit}, {{"to", b.attributes().integer("dtype", onnxType(like.element))}})};
}

static std::vector<Tensor> evaluateDrawn(const NodeView &node,
                                         std::span<const Tensor *const> inputs) {
  if (!node.attributes.has("key"))
    refuse(node, "draws no random numbers in ONNX's form");
  return evaluateComposed(node, inputs);
}

static ComposedOperator like(std::string_view name, int first, Compose compose) {
  return {{.name = name,
           .firstOpset = first,
           .lastOpset = kLastOpset,
           .inputs = {{"input"}, {.name = "random", .optional = true}},
           .outputs = {{"output"}},
           .normalise = normaliseRandom,
           .evaluate = evaluateDrawn},
          compose};
}

static ComposedOperator ofShape(std::string_view name, Compose compose) {
  return {{.name = name,
           .firstOpset = 1,
           .lastOpset = kLastOpset,
           .inputs = {{.name = "random", .optional = true}},
           .outputs = {{"output"}},
           .normalise = normaliseRandom,
           .evaluate = evaluateDrawn},
          compose};
}

std::span<const ComposedOperator> randomForms() {
  static const ComposedOperator operators[] = {
      like("Bernoulli", 15, composeBernoulli),
      ofShape("RandomNormal", composeRandomNormal),
      like("RandomNormalLike", 1, composeRandomNormalLike),
      ofShape("RandomUniform", composeRandomUniform),
      like("RandomUniformLike", 1, composeRandomUniformLike),
  };
  return operators;
}

} // namespace pdc
