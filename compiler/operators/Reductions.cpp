#include "compiler/operators/Families.h"
#include "compiler/operators/Rules.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace pdc {

/// Which dimensions are summed over.
struct Reduction {
  std::vector<bool> reduced;
  std::vector<int64_t> kept;   ///< result shape with ones
  std::vector<int64_t> result; ///< result shape
  double count = 1;            ///< elements per sum
};

static Reduction resolveReduction(const NodeView &node, const std::vector<int64_t> &shape,
                                  std::vector<int64_t> axes) {
  Reduction r;
  bool everything = axes.empty() && !node.attributes.integer("noop_with_empty_axes", 0);
  r.reduced.assign(shape.size(), everything);
  for (int64_t axis : axesFromStart(node, axes, shape.size()))
    r.reduced[axis] = true;
  r.kept = shape;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (r.reduced[d]) {
      r.count *= shape[d];
      r.kept[d] = 1;
    }
    if (!r.reduced[d] || node.attributes.integer("keepdims", 1))
      r.result.push_back(r.kept[d]);
  }
  return r;
}

static Reduction resolveReduction(const NodeView &node) {
  std::vector<int64_t> axes = node.hasInput(1) ? knownIntegers(node, 1) : std::vector<int64_t>();
  return resolveReduction(node, node.input(0).shape, axes);
}

static std::vector<TensorType> inferReduction(const NodeView &node) {
  const ElementType element = node.input(0).element;
  const bool sums = node.op == "ReduceSum" || node.op == "ReduceMean";
  return {{sums ? sumElement(element) : element, resolveReduction(node).result}};
}

/// What an element does to the result so far.
static double combined(std::string_view op, double result, double element) {
  if (op == "ReduceProd")
    return result * element;
  if (op == "ReduceMax")
    return result >= element || std::isnan(result) ? result : element;
  return result + element;
}

static double startOf(std::string_view op) {
  if (op == "ReduceMax")
    return -std::numeric_limits<double>::infinity();
  return op == "ReduceProd" ? 1 : 0;
}

static std::vector<Tensor> evaluateReduction(const NodeView &node,
                                             std::span<const Tensor *const> inputs) {
  NodeView known = node;
  known.constants = inputs;
  Reduction r = resolveReduction(known);
  const Tensor &x = *inputs[0];
  Tensor y = Tensor::zeros(inferReduction(known)[0]);
  std::fill(y.data.begin(), y.data.end(), startOf(node.op));
  auto strides = broadcastStrides(r.kept, x.type.shape);
  std::vector<int64_t> index(x.type.rank());
  for (double element : x.data) {
    double &result = y.data[offsetOf(index, strides)];
    result = combined(node.op, result, element);
    advance(index, x.type.shape);
  }
  if (node.op == "ReduceMean")
    for (double &element : y.data)
      element /= r.count;
  return {y};
}

/// A value of the result's shape repeated over the dimensions that were reduced. The axes are an
/// input, which may be known to the graph only: without keepdims an operator of ours takes them as
/// they came.
static GradientValue spread(GradientBuilder &b, GradientValue value) {
  std::vector<int64_t> shape = b.type(b.input(0)).shape;
  if (b.type(value).shape == shape)
    return value;
  if (b.attributes().integer("keepdims", 1))
    return add(b, "Expand", {value, b.constant(Tensor::vector(shape))});
  std::vector<GradientValue> inputs = {value, b.constant(Tensor::vector(shape))};
  if (GradientValue axes = b.inputCount() > 1 ? b.input(1) : GradientValue())
    inputs.push_back(axes);
  return add(b, "ReduceSumGrad", inputs, b.attributes());
}

static void differentiateReduceSum(GradientBuilder &b) {
  if (b.wants(0))
    b.setInputGradient(0, spread(b, b.outputGradient(0)));
}

static std::vector<TensorType> inferReduceSumGrad(const NodeView &node) {
  return {{node.input(0).element, knownIntegers(node, 1)}};
}

static std::vector<Tensor> evaluateReduceSumGrad(const NodeView &node,
                                                 std::span<const Tensor *const> inputs) {
  Tensor dx = Tensor::zeros(typesFrom(node, inputs)[0]);
  std::vector<int64_t> axes;
  if (inputs.size() > 2 && inputs[2])
    axes = inputs[2]->toIntegers();
  Reduction r = resolveReduction(node, dx.type.shape, axes);
  auto strides = broadcastStrides(r.kept, dx.type.shape);
  std::vector<int64_t> index(dx.type.rank());
  for (double &element : dx.data) {
    element = inputs[0]->data.at(offsetOf(index, strides));
    advance(index, dx.type.shape);
  }
  return {dx};
}

static void differentiateReduceMean(GradientBuilder &b) {
  if (!b.wants(0))
    return;
  const TensorType x = b.type(b.input(0)), mean = b.type(b.outputGradient(0));
  const double share = static_cast<double>(mean.elementCount()) /
                       static_cast<double>(std::max<int64_t>(1, x.elementCount()));
  GradientValue factor = b.constant(Tensor::scalar(mean.element, share));
  b.setInputGradient(0, spread(b, add(b, "Mul", {b.outputGradient(0), factor})));
}

/// Equal largest elements share the gradient in equal parts.
static void differentiateReduceMax(GradientBuilder &b) {
  if (!b.wants(0))
    return;
  ElementType element = b.type(b.input(0)).element;
  GradientValue one = b.constant(Tensor::scalar(element, 1));
  GradientValue zero = b.constant(Tensor::scalar(element, 0));
  GradientValue isLargest = add(b, "Equal", {b.input(0), spread(b, b.output(0))});
  GradientValue largest = add(b, "Where", {isLargest, one, zero});
  std::vector<GradientValue> counted = {largest};
  if (b.inputCount() > 1)
    counted.push_back(b.input(1));
  GradientValue count = add(b, "ReduceSum", counted, b.attributes());
  GradientValue share = add(b, "Div", {b.outputGradient(0), count});
  b.setInputGradient(0, add(b, "Mul", {spread(b, share), largest}));
}

/// dy times the product of the others: of all that are not zero, divided by the element; where one
/// element is zero, only that one has a gradient, and where several are, none has.
static void differentiateReduceProd(GradientBuilder &b) {
  if (!b.wants(0))
    return;
  ElementType element = b.type(b.input(0)).element;
  auto number = [&](double value) { return b.constant(Tensor::scalar(element, value)); };
  auto reduced = [&](std::string_view op, GradientValue x) {
    std::vector<GradientValue> inputs = {x};
    if (b.inputCount() > 1)
      inputs.push_back(b.input(1));
    return add(b, op, inputs, b.attributes());
  };
  GradientValue isZero = add(b, "Equal", {b.input(0), number(0)});
  GradientValue others = add(b, "Where", {isZero, number(1), b.input(0)});
  GradientValue zeros = reduced("ReduceSum", add(b, "Where", {isZero, number(1), number(0)}));
  GradientValue whole = add(b, "Mul", {b.outputGradient(0), reduced("ReduceProd", others)});
  auto where = [&](double count) {
    GradientValue fits = add(b, "Equal", {zeros, number(count)});
    return spread(b, add(b, "Where", {fits, whole, number(0)}));
  };
  b.setInputGradient(0, add(b, "Where", {isZero, where(1), add(b, "Div", {where(0), others})}));
}

/// The axes are input 1 since opset 13.
static void normaliseReduceSum(ImportedNode &node, int opset) {
  if (opset < 13)
    attributeToInput(node, "axes", 1);
}

/// The same for all others since opset 18.
void normaliseReduction(ImportedNode &node, int opset) {
  if (opset < 18)
    attributeToInput(node, "axes", 1);
}

static Cost costReduction(const NodeView &node, std::span<const TensorType> outputs) {
  double elements = node.input(0).elementCount();
  return {elements, static_cast<double>(node.input(0).bytes() + outputs[0].bytes())};
}

std::span<const Operator> reductionOperators() {
  static const Operator operators[] = {
      {.name = "ReduceSum",
       .firstOpset = kFirstOpset,
       .lastOpset = kLastOpset,
       .inputs = {{"data"}, {.name = "axes", .optional = true, .known = true}},
       .outputs = {{"reduced"}},
       .normalise = normaliseReduceSum,
       .infer = inferReduction,
       .evaluate = evaluateReduction,
       .differentiate = differentiateReduceSum,
       .cost = costReduction},
      {.name = "ReduceSumGrad",
       .inputs = {{"dY"},
                  {.name = "shape", .known = true},
                  {.name = "axes", .optional = true, .known = true}},
       .outputs = {{"dX"}},
       .infer = inferReduceSumGrad,
       .evaluate = evaluateReduceSumGrad},
      {.name = "ReduceMean",
       .firstOpset = kFirstOpset,
       .lastOpset = kLastOpset,
       .inputs = {{"data"}, {.name = "axes", .optional = true, .known = true}},
       .outputs = {{"reduced"}},
       .elements = floatElements(),
       .normalise = normaliseReduction,
       .infer = inferReduction,
       .evaluate = evaluateReduction,
       .differentiate = differentiateReduceMean,
       .cost = costReduction},
      {.name = "ReduceMax",
       .firstOpset = 1,
       .lastOpset = kLastOpset,
       .inputs = {{"data"}, {.name = "axes", .optional = true, .known = true}},
       .outputs = {{"reduced"}},
       .normalise = normaliseReduction,
       .infer = inferReduction,
       .evaluate = evaluateReduction,
       .differentiate = differentiateReduceMax,
       .cost = costReduction},
      {.name = "ReduceProd",
       .firstOpset = 1,
       .lastOpset = kLastOpset,
       .inputs = {{"data"}, {.name = "axes", .optional = true, .known = true}},
       .outputs = {{"reduced"}},
       .normalise = normaliseReduction,
       .infer = inferReduction,
       .evaluate = evaluateReduction,
       .differentiate = differentiateReduceProd,
       .cost = costReduction},
  };
  return operators;
}

} // namespace pdc
