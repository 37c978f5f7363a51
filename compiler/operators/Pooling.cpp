#include "compiler/operators/Families.h"
#include "compiler/operators/Rules.h"
#include "compiler/operators/Window.h"

#include <algorithm>
#include <limits>

namespace pdc {

/// A window that sees padding only would have no maximum and no mean.
static Window resolvePooling(const NodeView &node, const std::vector<int64_t> &x) {
  Window window = resolveWindow(node, x);
  for (size_t d = 0; d < window.kernel.size(); ++d) {
    int64_t extent = (window.kernel[d] - 1) * window.dilations[d] + 1;
    if (window.padsBegin[d] >= extent || window.padsEnd[d] >= extent)
      refuse(node, "padding reaches beyond the window of " + std::to_string(extent) +
                       " in spatial dimension " + std::to_string(d));
  }
  return window;
}

static std::vector<int64_t> pooledShape(const std::vector<int64_t> &x, const Window &window) {
  std::vector<int64_t> y = {x[0], x[1]};
  y.insert(y.end(), window.output.begin(), window.output.end());
  return y;
}

/// For each pooled element and each tap that lies inside the input: `visit(x, y)` offsets.
template <class Visit>
static void forEachTap(const Window &window, const std::vector<int64_t> &x, Visit visit) {
  int64_t inputSize = product(x, 2), outputSize = product(window.output);
  int64_t taps = product(window.kernel);
  std::vector<int64_t> position(window.rank());
  for (int64_t p = 0; p < outputSize; ++p, advance(position, window.output)) {
    std::vector<int64_t> tap(window.rank());
    for (int64_t t = 0; t < taps; ++t, advance(tap, window.kernel)) {
      int64_t source;
      if (sourceOffset(window, position, tap, x, source))
        for (int64_t plane = 0; plane < x[0] * x[1]; ++plane)
          visit(plane * inputSize + source, plane * outputSize + p);
    }
  }
}

/// The gradient needs to know the maxima: a second output is always there, without a name when the
/// file has none for it. Who reads it wants `indices`, ONNX's numbers, where kernels have their
/// own.
static void normaliseMaxPool(ImportedNode &node, int) {
  if (node.outputs.size() > 1 && !node.outputs[1].empty())
    node.attributes.set("indices", int64_t(1));
  node.outputs.resize(2);
}

static std::vector<TensorType> inferMaxPool(const NodeView &node) {
  const TensorType &x = node.input(0);
  std::vector<int64_t> shape = pooledShape(x.shape, resolvePooling(node, x.shape));
  std::vector<TensorType> types = {{x.element, shape}, {ElementType::i64, shape}};
  types.resize(std::min<size_t>(2, node.outputCount));
  return types;
}

/// The index is that of the element in the whole input; the first of equal elements wins. Only who
/// reads `indices` sees ONNX's numbers of storage_order 1: the gradient takes the row-major ones.
static std::vector<Tensor> evaluateMaxPool(const NodeView &node,
                                           std::span<const Tensor *const> inputs) {
  const Tensor &x = *inputs[0];
  Window window = resolveWindow(node, x.type.shape);
  TensorType type{x.type.element, pooledShape(x.type.shape, window)};
  Tensor y = Tensor::zeros(type), indices = Tensor::zeros({ElementType::i64, type.shape});
  y.data.assign(y.data.size(), -std::numeric_limits<double>::infinity());
  forEachTap(window, x.type.shape, [&](int64_t i, int64_t o) {
    if (x.data[i] > y.data[o]) {
      y.data[o] = x.data[i];
      indices.data[o] = static_cast<double>(i);
    }
  });
  if (node.attributes.integer("indices", 0) && node.attributes.integer("storage_order", 0))
    for (double &index : indices.data)
      index = static_cast<double>(columnMajorOffset(static_cast<int64_t>(index), x.type.shape));
  std::vector<Tensor> results = {y, indices};
  results.resize(std::min<size_t>(2, node.outputCount));
  return results;
}

static Attributes resolvedAttributes(GradientBuilder &b) {
  std::vector<int64_t> x = b.type(b.input(0)).shape;
  NodeView node{"pooling", "", b.attributes(), {}, {}, 1};
  Attributes attributes = windowAttributes(resolveWindow(node, x), x);
  for (const char *name : {"ceil_mode", "count_include_pad"})
    if (b.attributes().has(name))
      attributes.set(name, b.attributes().integer(name, 0));
  return attributes;
}

static void differentiateMaxPool(GradientBuilder &b) {
  if (b.wants(0) && !b.output(1))
    throw Error("MaxPool has no second output; its gradient needs the indices of the maxima");
  if (b.wants(0))
    b.setInputGradient(
        0, add(b, "MaxPoolGrad", {b.outputGradient(0), b.output(1)}, resolvedAttributes(b)));
}

static std::vector<TensorType> inferPoolGrad(const NodeView &node) {
  return {{node.input(0).element, node.attributes.integers("input_shape")}};
}

static std::vector<Tensor> evaluateMaxPoolGrad(const NodeView &node,
                                               std::span<const Tensor *const> inputs) {
  const Tensor &dy = *inputs[0], &indices = *inputs[1];
  Tensor dx = Tensor::zeros(inferPoolGrad(node)[0]);
  if (indices.data.size() != dy.data.size())
    refuse(node, "gradient " + dy.type.toString() + " and indices " + indices.type.toString());
  for (size_t i = 0; i < dy.data.size(); ++i) {
    if (indices.data[i] < 0 || indices.data[i] >= dx.data.size())
      refuse(node, "index outside the input");
    dx.data[static_cast<size_t>(indices.data[i])] += dy.data[i];
  }
  return {dx};
}

static std::vector<TensorType> inferAveragePool(const NodeView &node) {
  const TensorType &x = node.input(0);
  const Window window = resolvePooling(node, x.shape);
  // With dilations a window that reaches the input may still step over it.
  if (window.hasHoles() && std::ranges::count(averageDivisors(node, window, x.shape), 0) > 0)
    refuse(node, "a window has no element of the input to average; its dilations step over all");
  return {{x.element, pooledShape(x.shape, window)}};
}

std::vector<double> averageDivisors(const NodeView &node, const Window &window,
                                    const std::vector<int64_t> &x) {
  std::vector<int64_t> bounds = x, begin(window.rank());
  Window counted = window;
  if (node.attributes.integer("count_include_pad", 0))
    for (size_t d = 0; d < begin.size(); ++d) {
      bounds[d + 2] += window.padsBegin[d] + window.padsEnd[d];
      counted.padsBegin[d] = 0;
    }
  bounds[0] = bounds[1] = 1;
  std::vector<double> divisors(product(window.output));
  forEachTap(counted, bounds, [&](int64_t, int64_t o) { divisors[o] += 1; });
  return divisors;
}

static std::vector<Tensor> evaluateAveragePool(const NodeView &node,
                                               std::span<const Tensor *const> inputs) {
  const Tensor &x = *inputs[0];
  Tensor y = Tensor::zeros(inferAveragePool(node)[0]);
  Window window = resolveWindow(node, x.type.shape);
  forEachTap(window, x.type.shape, [&](int64_t i, int64_t o) { y.data[o] += x.data[i]; });
  std::vector<double> divisors = averageDivisors(node, window, x.type.shape);
  for (size_t o = 0; o < y.data.size(); ++o)
    y.data[o] /= divisors[o % divisors.size()];
  return {y};
}

static void differentiateAveragePool(GradientBuilder &b) {
  if (b.wants(0))
    b.setInputGradient(0, add(b, "AveragePoolGrad", {b.outputGradient(0)}, resolvedAttributes(b)));
}

static std::vector<Tensor> evaluateAveragePoolGrad(const NodeView &node,
                                                   std::span<const Tensor *const> inputs) {
  const Tensor &dy = *inputs[0];
  Tensor dx = Tensor::zeros(inferPoolGrad(node)[0]);
  Window window = resolveWindow(node, dx.type.shape);
  std::vector<double> divisors = averageDivisors(node, window, dx.type.shape);
  forEachTap(window, dx.type.shape, [&](int64_t i, int64_t o) {
    dx.data[i] += dy.data[o] / divisors[o % divisors.size()];
  });
  return {dx};
}

static std::vector<TensorType> inferGlobalAveragePool(const NodeView &node) {
  TensorType y = node.input(0);
  if (y.rank() < 3)
    refuse(node, "input " + y.toString() + ", expected batch, channels and spatial dimensions");
  for (size_t d = 2; d < y.shape.size(); ++d)
    y.shape[d] = 1;
  return {y};
}

static std::vector<Tensor> evaluateGlobalAveragePool(const NodeView &node,
                                                     std::span<const Tensor *const> inputs) {
  const Tensor &x = *inputs[0];
  Tensor y = Tensor::zeros(inferGlobalAveragePool(node)[0]);
  int64_t pixels = product(x.type.shape, 2);
  for (size_t i = 0; i < x.data.size(); ++i)
    y.data[i / pixels] += x.data[i] / pixels;
  return {y};
}

static void differentiateGlobalAveragePool(GradientBuilder &b) {
  if (b.wants(0))
    b.setInputGradient(0, add(b, "GlobalAveragePoolGrad", {b.outputGradient(0)},
                              {{"input_shape", b.type(b.input(0)).shape}}));
}

static std::vector<Tensor> evaluateGlobalAveragePoolGrad(const NodeView &node,
                                                         std::span<const Tensor *const> inputs) {
  Tensor dx = Tensor::zeros(inferPoolGrad(node)[0]);
  int64_t pixels = product(dx.type.shape, 2);
  for (size_t i = 0; i < dx.data.size(); ++i)
    dx.data[i] = inputs[0]->data[i / pixels] / pixels;
  return {dx};
}

static Cost costWindow(const NodeView &node, std::span<const TensorType> outputs) {
  Cost cost;
  for (const TensorType *type : node.inputs)
    cost.bytes += type ? type->bytes() : 0;
  for (const TensorType &type : outputs)
    cost.bytes += type.bytes();
  bool gradient = node.attributes.has("input_shape");
  double pooled = gradient ? node.input(0).elementCount() : outputs[0].elementCount();
  cost.flops = pooled * product(node.attributes.integers("kernel_shape"));
  return cost;
}

std::span<const Operator> poolingOperators() {
  static const Operator operators[] = {
      {.name = "MaxPool",
       .firstOpset = kFirstOpset,
       .lastOpset = kLastOpset,
       .inputs = {{"X"}},
       .outputs = {{"Y"}, {"Indices", true}},
       .elements = floatElements(),
       .normalise = normaliseMaxPool,
       .infer = inferMaxPool,
       .evaluate = evaluateMaxPool,
       .differentiate = differentiateMaxPool,
       .cost = costWindow},
      {.name = "MaxPoolGrad",
       .inputs = {{"dY"}, {"Indices"}},
       .outputs = {{"dX"}},
       .infer = inferPoolGrad,
       .evaluate = evaluateMaxPoolGrad},
      {.name = "AveragePool",
       .firstOpset = kFirstOpset,
       .lastOpset = kLastOpset,
       .inputs = {{"X"}},
       .outputs = {{"Y"}},
       .elements = floatElements(),
       .infer = inferAveragePool,
       .evaluate = evaluateAveragePool,
       .differentiate = differentiateAveragePool,
       .cost = costWindow},
      {.name = "AveragePoolGrad",
       .inputs = {{"dY"}},
       .outputs = {{"dX"}},
       .infer = inferPoolGrad,
       .evaluate = evaluateAveragePoolGrad,
       .cost = costWindow},
      {.name = "GlobalAveragePool",
       .firstOpset = 1,
       .lastOpset = kLastOpset,
       .inputs = {{"X"}},
       .outputs = {{"Y"}},
       .elements = floatElements(),
       .infer = inferGlobalAveragePool,
       .evaluate = evaluateGlobalAveragePool,
       .differentiate = differentiateGlobalAveragePool},
      {.name = "GlobalAveragePoolGrad",
       .inputs = {{"dY"}},
       .outputs = {{"dX"}},
       .infer = inferPoolGrad,
       .evaluate = evaluateGlobalAveragePoolGrad},
  };
  return operators;
}

} // namespace pdc
