#include "compiler/operators/Families.h"
#include "compiler/operators/Rules.h"

#include <algorithm>
#include <cmath>

namespace pdc {

/// Opsets before 13 normalise over all dimensions from `axis` on together: the attribute `flatten`
/// keeps that.
static void normaliseSoftmax(ImportedNode &node, int opset) {
  int64_t axis = node.attributes.integer("axis", opset < 13 ? 1 : -1);
  node.attributes.set("axis", axis);
  if (opset < 13 && axis != -1)
    node.attributes.set("flatten", int64_t(1));
}

/// Element k of row (o, i) is at (o * size + k) * inner + i.
struct SoftmaxRows {
  int64_t outer, size, inner;

  SoftmaxRows(const NodeView &node, const std::vector<int64_t> &shape) {
    int64_t axis = axisFromStart(node, node.attributes.integer("axis", -1), shape.size());
    bool flatten = node.attributes.integer("flatten", 0) != 0;
    outer = product(shape, 0, axis);
    size = flatten ? product(shape, axis) : shape[axis];
    inner = flatten ? 1 : product(shape, axis + 1);
  }
  /// Calls visit(at), where at(k) is the offset of the row's element k.
  template <class Visit> void forEach(Visit visit) const {
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t i = 0; i < inner; ++i)
        visit([&, o, i](int64_t k) { return (o * size + k) * inner + i; });
  }
};

static std::vector<TensorType> inferSoftmax(const NodeView &node) {
  SoftmaxRows(node, node.input(0).shape);
  return {node.input(0)};
}

static std::vector<Tensor> evaluateLogSoftmax(const NodeView &node,
                                              std::span<const Tensor *const> inputs) {
  Tensor y = *inputs[0];
  SoftmaxRows rows(node, y.type.shape);
  rows.forEach([&](auto at) {
    double most = -std::numeric_limits<double>::infinity(), sum = 0;
    for (int64_t k = 0; k < rows.size; ++k)
      most = std::max(most, y.data[at(k)]);
    for (int64_t k = 0; k < rows.size; ++k)
      sum += std::exp(y.data[at(k)] - most);
    for (int64_t k = 0; k < rows.size; ++k)
      y.data[at(k)] = (y.data[at(k)] - most) - std::log(sum);
  });
  return {y};
}

static std::vector<Tensor> evaluateSoftmax(const NodeView &node,
                                           std::span<const Tensor *const> inputs) {
  std::vector<Tensor> y = evaluateLogSoftmax(node, inputs);
  for (double &element : y[0].data)
    element = std::exp(element);
  return y;
}

static void differentiateSoftmax(GradientBuilder &b) {
  if (b.wants(0))
    b.setInputGradient(0,
                       add(b, "SoftmaxGrad", {b.outputGradient(0), b.output(0)}, b.attributes()));
}

static void differentiateLogSoftmax(GradientBuilder &b) {
  if (b.wants(0))
    b.setInputGradient(
        0, add(b, "LogSoftmaxGrad", {b.outputGradient(0), b.output(0)}, b.attributes()));
}

/// Softmax: dx = y (dy - sum(dy y)). LogSoftmax: dx = dy - exp(y) sum(dy).
static std::vector<Tensor> evaluateGrad(const NodeView &node,
                                        std::span<const Tensor *const> inputs) {
  const Tensor &dy = *inputs[0], &y = *inputs[1];
  bool logarithm = node.op == "LogSoftmaxGrad";
  Tensor dx = dy;
  SoftmaxRows rows(node, y.type.shape);
  rows.forEach([&](auto at) {
    double sum = 0;
    for (int64_t k = 0; k < rows.size; ++k)
      sum += dy.data[at(k)] * (logarithm ? 1 : y.data[at(k)]);
    for (int64_t k = 0; k < rows.size; ++k) {
      int64_t e = at(k);
      dx.data[e] =
          logarithm ? dy.data[e] - std::exp(y.data[e]) * sum : y.data[e] * (dy.data[e] - sum);
    }
  });
  return {dx};
}

std::span<const Operator> softmaxOperators() {
  auto forward = [](std::string_view name, auto evaluate, auto differentiate) {
    return Operator{.name = name,
                    .firstOpset = kFirstOpset,
                    .lastOpset = kLastOpset,
                    .inputs = {{"input"}},
                    .outputs = {{"output"}},
                    .elements = floatElements(),
                    .normalise = normaliseSoftmax,
                    .infer = inferSoftmax,
                    .evaluate = evaluate,
                    .differentiate = differentiate};
  };
  auto gradient = [](std::string_view name) {
    return Operator{.name = name,
                    .inputs = {{"dY"}, {"Y"}},
                    .outputs = {{"dX"}},
                    .infer = inferSoftmax,
                    .evaluate = evaluateGrad};
  };
  static const Operator operators[] = {
      forward("Softmax", evaluateSoftmax, differentiateSoftmax),
      forward("LogSoftmax", evaluateLogSoftmax, differentiateLogSoftmax),
      gradient("SoftmaxGrad"),
      gradient("LogSoftmaxGrad"),
  };
  return operators;
}

} // namespace pdc
