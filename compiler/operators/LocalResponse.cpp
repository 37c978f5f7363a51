#include "compiler/operators/Families.h"
#include "compiler/operators/Rules.h"

#include <algorithm>
#include <cmath>

namespace pdc {

/// y = x / (bias + alpha / size * sum of x^2 over `size` neighbouring channels) ^ beta
struct Response {
  int64_t size, channels, pixels;
  double alpha, beta, bias;

  Response(const NodeView &node, const TensorType &x)
      : size(node.attributes.integer("size", 0)), channels(x.shape[1]), pixels(product(x.shape, 2)),
        alpha(node.attributes.number("alpha", 1e-4)), beta(node.attributes.number("beta", 0.75)),
        bias(node.attributes.number("bias", 1)) {}

  /// Calls visit(j) for the elements of the window around channel of element i.
  template <class Visit> void window(int64_t i, int64_t before, int64_t after, Visit visit) const {
    int64_t c = i / pixels % channels;
    for (int64_t d = std::max<int64_t>(0, c - before); d <= std::min(channels - 1, c + after); ++d)
      visit(i + (d - c) * pixels);
  }
  int64_t before() const { return (size - 1) / 2; }
  int64_t after() const { return size - 1 - before(); }

  double base(const Tensor &x, int64_t i) const {
    double sum = 0;
    window(i, before(), after(), [&](int64_t j) { sum += x.data[j] * x.data[j]; });
    return bias + alpha / size * sum;
  }
};

static void normaliseLrn(ImportedNode &node, int) {
  node.attributes.set("alpha", node.attributes.number("alpha", 1e-4));
  node.attributes.set("beta", node.attributes.number("beta", 0.75));
  node.attributes.set("bias", node.attributes.number("bias", 1));
}

static std::vector<TensorType> inferLrn(const NodeView &node) {
  const TensorType &x = node.input(0);
  if (x.rank() < 2)
    refuse(node, "input " + x.toString() + ", expected batch and channels at least");
  int64_t size = node.attributes.integer("size", 0);
  if (size < 1 || size > 1 << 20)
    refuse(node, "attribute 'size' is " + std::to_string(size) + ", expected a positive number");
  return {x};
}

static std::vector<Tensor> evaluateLrn(const NodeView &node,
                                       std::span<const Tensor *const> inputs) {
  Tensor y = *inputs[0];
  Response response(node, y.type);
  for (size_t i = 0; i < y.data.size(); ++i)
    y.data[i] *= std::pow(response.base(*inputs[0], i), -response.beta);
  return {y};
}

static void differentiateLrn(GradientBuilder &b) {
  if (b.wants(0))
    b.setInputGradient(
        0, add(b, "LRNGrad", {b.outputGradient(0), b.input(0), b.output(0)}, b.attributes()));
}

static std::vector<TensorType> inferLrnGrad(const NodeView &node) { return {node.input(1)}; }

/// dx_i = dy_i base_i^-beta - 2 alpha beta / size x_i sum over j with i in j's window of dy_j y_j /
/// base_j
static std::vector<Tensor> evaluateLrnGrad(const NodeView &node,
                                           std::span<const Tensor *const> inputs) {
  const Tensor &dy = *inputs[0], &x = *inputs[1], &y = *inputs[2];
  Response response(node, x.type);
  std::vector<double> base(x.data.size());
  for (size_t i = 0; i < base.size(); ++i)
    base[i] = response.base(x, i);
  Tensor dx = Tensor::zeros(x.type);
  for (size_t i = 0; i < base.size(); ++i) {
    double sum = 0;
    response.window(i, response.after(), response.before(),
                    [&](int64_t j) { sum += dy.data[j] * y.data[j] / base[j]; });
    dx.data[i] = dy.data[i] * std::pow(base[i], -response.beta) -
                 2 * response.alpha * response.beta / response.size * x.data[i] * sum;
  }
  return {dx};
}

std::span<const Operator> localResponseOperators() {
  static const Operator operators[] = {
      {.name = "LRN",
       .firstOpset = kFirstOpset,
       .lastOpset = kLastOpset,
       .inputs = {{"X"}},
       .outputs = {{"Y"}},
       .elements = floatElements(),
       .normalise = normaliseLrn,
       .infer = inferLrn,
       .evaluate = evaluateLrn,
       .differentiate = differentiateLrn},
      {.name = "LRNGrad",
       .inputs = {{"dY"}, {"X"}, {"Y"}},
       .outputs = {{"dX"}},
       .infer = inferLrnGrad,
       .evaluate = evaluateLrnGrad},
  };
  return operators;
}

} // namespace pdc
