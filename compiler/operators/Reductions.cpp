#include "compiler/operators/Families.h"
#include "compiler/operators/Rules.h"

#include <algorithm>

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

/// ReduceSum has its axes as input 1 since opset 13, ReduceMean as an attribute up to 17.
static Reduction resolveReduction(const NodeView &node) {
  std::vector<int64_t> axes =
      node.hasInput(1) ? knownIntegers(node, 1) : node.attributes.integers("axes");
  return resolveReduction(node, node.input(0).shape, axes);
}

static std::vector<TensorType> inferReduction(const NodeView &node) {
  return {{node.input(0).element, resolveReduction(node).result}};
}

static std::vector<Tensor> evaluateReduction(const NodeView &node,
                                             std::span<const Tensor *const> inputs) {
  NodeView known = node;
  known.constants = inputs;
  Reduction r = resolveReduction(known);
  const Tensor &x = *inputs[0];
  Tensor y = Tensor::zeros({x.type.element, r.result});
  auto strides = broadcastStrides(r.kept, x.type.shape);
  std::vector<int64_t> index(x.type.rank());
  for (double element : x.data) {
    y.data[offsetOf(index, strides)] += element;
    advance(index, x.type.shape);
  }
  if (node.op == "ReduceMean")
    for (double &element : y.data)
      element /= r.count;
  return {y};
}

/// The arriving gradient with ones where dimensions were summed, spread over them.
static GradientValue spread(GradientBuilder &b, const Reduction &r) {
  std::vector<int64_t> shape = b.type(b.input(0)).shape;
  GradientValue dy = reshaped(b, b.outputGradient(0), r.kept);
  return r.kept == shape ? dy : add(b, "Expand", {dy, b.constant(Tensor::vector(shape))});
}

/// The axes are an input, which may be known to the graph only: without keepdims an operator of
/// ours takes them as they came.
static void differentiateReduceSum(GradientBuilder &b) {
  if (!b.wants(0))
    return;
  std::vector<int64_t> shape = b.type(b.input(0)).shape;
  GradientValue dy = b.outputGradient(0);
  if (b.attributes().integer("keepdims", 1)) {
    b.setInputGradient(0, b.type(dy).shape == shape
                              ? dy
                              : add(b, "Expand", {dy, b.constant(Tensor::vector(shape))}));
    return;
  }
  GradientValue axes = b.inputCount() > 1 ? b.input(1) : GradientValue();
  std::vector<GradientValue> inputs = {dy, b.constant(Tensor::vector(shape))};
  if (axes)
    inputs.push_back(axes);
  b.setInputGradient(0, add(b, "ReduceSumGrad", inputs, b.attributes()));
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
  NodeView node{"ReduceMean", "", b.attributes(), {}, {}, 1};
  Reduction r = resolveReduction(node, b.type(b.input(0)).shape, b.attributes().integers("axes"));
  GradientValue dx = spread(b, r);
  Tensor factor = Tensor::scalar(b.type(dx).element, 1 / r.count);
  b.setInputGradient(0, add(b, "Mul", {dx, b.constant(factor)}));
}

static void normaliseReduceSum(ImportedNode &node, int opset) {
  if (opset < 13)
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
       .inputs = {{"data"}},
       .outputs = {{"reduced"}},
       .elements = floatElements(),
       .infer = inferReduction,
       .evaluate = evaluateReduction,
       .differentiate = differentiateReduceMean,
       .cost = costReduction},
  };
  return operators;
}

} // namespace pdc
