#include "compiler/operators/Families.h"
#include "compiler/operators/Rules.h"
#include "compiler/operators/Window.h"

namespace pdc {

static std::vector<int64_t> spatial(const std::vector<int64_t> &shape) {
  return shape.size() < 3 ? std::vector<int64_t>()
                          : std::vector<int64_t>(shape.begin() + 2, shape.end());
}

static int64_t groupsOf(const NodeView &node) { return node.attributes.integer("group", 1); }

static void checkChannels(const NodeView &node, const std::vector<int64_t> &x,
                          const std::vector<int64_t> &w) {
  int64_t groups = groupsOf(node);
  if (x.size() != w.size() || x.size() < 3)
    refuse(node, "input " + shapeText(x) + " and weight " + shapeText(w) +
                     " must have the same rank, at least 3");
  if (groups < 1 || w[0] < 1 || w[1] < 1 || x[1] % groups || x[1] / groups != w[1] || w[0] % groups)
    refuse(node, "input " + shapeText(x) + " does not fit weight " + shapeText(w) + " in " +
                     std::to_string(groups) + " groups");
}

static std::vector<TensorType> inferConv(const NodeView &node) {
  const TensorType &x = node.input(0), &w = node.input(1);
  checkChannels(node, x.shape, w.shape);
  if (node.hasInput(2) && node.input(2).shape != std::vector<int64_t>{w.shape[0]})
    refuse(node,
           "bias " + shapeText(node.input(2).shape) + ", expected " + shapeText({w.shape[0]}));
  Window window = resolveWindow(node, x.shape, spatial(w.shape));
  TensorType y{x.element, {x.shape[0], w.shape[0]}};
  y.shape.insert(y.shape.end(), window.output.begin(), window.output.end());
  return {y};
}

/// A convolution's three uses walk the same products x[n,c,source] * w[m,c/group,tap] ->
/// y[n,m,out]; `visit(x, w, y)` gets the three offsets.
template <class Visit>
static void forEachProduct(const Window &window, int64_t groups, const std::vector<int64_t> &x,
                           const std::vector<int64_t> &w, Visit visit) {
  int64_t inputSize = product(x, 2), taps = product(w, 2), outputSize = product(window.output);
  int64_t outputsPerGroup = w[0] / groups;
  std::vector<int64_t> position(window.rank());
  for (int64_t p = 0; p < outputSize; ++p, advance(position, window.output)) {
    std::vector<int64_t> tap(window.rank());
    for (int64_t t = 0; t < taps; ++t, advance(tap, window.kernel)) {
      int64_t source;
      if (!sourceOffset(window, position, tap, x, source))
        continue;
      for (int64_t n = 0; n < x[0]; ++n)
        for (int64_t m = 0; m < w[0]; ++m)
          for (int64_t c = 0; c < w[1]; ++c) {
            int64_t channel = m / outputsPerGroup * w[1] + c;
            visit((n * x[1] + channel) * inputSize + source, (m * w[1] + c) * taps + t,
                  (n * w[0] + m) * outputSize + p);
          }
    }
  }
}

static std::vector<Tensor> evaluateConv(const NodeView &node,
                                        std::span<const Tensor *const> inputs) {
  const Tensor &x = *inputs[0], &w = *inputs[1];
  Tensor y = Tensor::zeros(inferConv(node)[0]);
  if (inputs.size() > 2 && inputs[2]) {
    int64_t pixels = product(y.type.shape, 2), channels = y.type.shape[1];
    for (size_t i = 0; i < y.data.size(); ++i)
      y.data[i] = inputs[2]->data[i / pixels % channels];
  }
  Window window = resolveWindow(node, x.type.shape, spatial(w.type.shape));
  forEachProduct(window, groupsOf(node), x.type.shape, w.type.shape,
                 [&](int64_t i, int64_t j, int64_t o) { y.data[o] += x.data[i] * w.data[j]; });
  return {y};
}

static void differentiateConv(GradientBuilder &b) {
  std::vector<int64_t> x = b.type(b.input(0)).shape, w = b.type(b.input(1)).shape;
  NodeView node{"Conv", "", b.attributes(), {}, {}, 1};
  Attributes attributes = windowAttributes(resolveWindow(node, x, spatial(w)), x);
  attributes.set("group", groupsOf(node));
  GradientValue dy = b.outputGradient(0);
  if (b.wants(0))
    b.setInputGradient(0, add(b, "ConvInputGrad", {dy, b.input(1)}, attributes));
  if (b.wants(1))
    b.setInputGradient(1, add(b, "ConvWeightGrad", {dy, b.input(0)}, attributes));
  if (b.inputCount() > 2 && b.wants(2))
    b.setInputGradient(2, add(b, "ConvBiasGrad", {dy}));
}

static std::vector<TensorType> inferInputGrad(const NodeView &node) {
  std::vector<int64_t> x = node.attributes.integers("input_shape");
  checkChannels(node, x, node.input(1).shape);
  return {{node.input(0).element, x}};
}

static std::vector<Tensor> evaluateInputGrad(const NodeView &node,
                                             std::span<const Tensor *const> inputs) {
  const Tensor &dy = *inputs[0], &w = *inputs[1];
  Tensor dx = Tensor::zeros(inferInputGrad(node)[0]);
  Window window = resolveWindow(node, dx.type.shape, spatial(w.type.shape));
  forEachProduct(window, groupsOf(node), dx.type.shape, w.type.shape,
                 [&](int64_t i, int64_t j, int64_t o) { dx.data[i] += dy.data[o] * w.data[j]; });
  return {dx};
}

/// As the forward operation of a transposed convolution.
static void differentiateInputGrad(GradientBuilder &b) {
  Attributes attributes = b.attributes();
  GradientValue g = b.outputGradient(0);
  if (b.wants(1))
    b.setInputGradient(1, add(b, "ConvWeightGrad", {b.input(0), g}, attributes));
  attributes.erase("input_shape");
  if (b.wants(0))
    b.setInputGradient(0, add(b, "Conv", {g, b.input(1)}, attributes));
}

static std::vector<TensorType> inferWeightGrad(const NodeView &node) {
  const TensorType &dy = node.input(0), &x = node.input(1);
  int64_t groups = groupsOf(node);
  if (groups < 1 || dy.rank() < 3 || x.rank() != dy.rank())
    refuse(node, "gradient " + dy.toString() + " does not fit input " + x.toString());
  TensorType w{dy.element, {dy.shape[1], x.shape[1] / groups}};
  for (int64_t size : node.attributes.integers("kernel_shape"))
    w.shape.push_back(size);
  checkChannels(node, x.shape, w.shape);
  return {w};
}

static std::vector<Tensor> evaluateWeightGrad(const NodeView &node,
                                              std::span<const Tensor *const> inputs) {
  const Tensor &dy = *inputs[0], &x = *inputs[1];
  Tensor dw = Tensor::zeros(inferWeightGrad(node)[0]);
  Window window = resolveWindow(node, x.type.shape, spatial(dw.type.shape));
  forEachProduct(window, groupsOf(node), x.type.shape, dw.type.shape,
                 [&](int64_t i, int64_t j, int64_t o) { dw.data[j] += dy.data[o] * x.data[i]; });
  return {dw};
}

static std::vector<TensorType> inferBiasGrad(const NodeView &node) {
  const TensorType &dy = node.input(0);
  if (dy.rank() < 2)
    refuse(node, "gradient of rank " + std::to_string(dy.rank()) + ", expected at least 2");
  return {{sumElement(dy.element), {dy.shape[1]}}};
}

static std::vector<Tensor> evaluateBiasGrad(const NodeView &node,
                                            std::span<const Tensor *const> inputs) {
  const Tensor &dy = *inputs[0];
  Tensor db = Tensor::zeros(inferBiasGrad(node)[0]);
  int64_t pixels = product(dy.type.shape, 2), channels = dy.type.shape[1];
  for (size_t i = 0; i < dy.data.size(); ++i)
    db.data[i / pixels % channels] += dy.data[i];
  return {db};
}

static double bytesOf(const NodeView &node, std::span<const TensorType> outputs) {
  double bytes = 0;
  for (const TensorType *type : node.inputs)
    bytes += type ? type->bytes() : 0;
  for (const TensorType &type : outputs)
    bytes += type.bytes();
  return bytes;
}

/// Two flops per product, in every direction.
static Cost convolutionCost(const NodeView &node, double gradientOrOutputElements,
                            const std::vector<int64_t> &w, std::span<const TensorType> outputs) {
  return {2 * gradientOrOutputElements * product(w, 1), bytesOf(node, outputs)};
}
static Cost costConv(const NodeView &node, std::span<const TensorType> outputs) {
  return convolutionCost(node, outputs[0].elementCount(), node.input(1).shape, outputs);
}
static Cost costInputGrad(const NodeView &node, std::span<const TensorType> outputs) {
  return convolutionCost(node, node.input(0).elementCount(), node.input(1).shape, outputs);
}
static Cost costWeightGrad(const NodeView &node, std::span<const TensorType> outputs) {
  return convolutionCost(node, node.input(0).elementCount(), outputs[0].shape, outputs);
}

std::span<const Operator> convolutionOperators() {
  static const Operator operators[] = {
      {.name = "Conv",
       .firstOpset = kFirstOpset,
       .lastOpset = kLastOpset,
       .inputs = {{"X"}, {"W"}, {"B", true}},
       .outputs = {{"Y"}},
       .elements = floatElements(),
       .infer = inferConv,
       .evaluate = evaluateConv,
       .differentiate = differentiateConv,
       .cost = costConv},
      {.name = "ConvInputGrad",
       .inputs = {{"dY"}, {"W"}},
       .outputs = {{"dX"}},
       .infer = inferInputGrad,
       .evaluate = evaluateInputGrad,
       .differentiate = differentiateInputGrad,
       .cost = costInputGrad},
      {.name = "ConvWeightGrad",
       .inputs = {{"dY"}, {"X"}},
       .outputs = {{"dW"}},
       .infer = inferWeightGrad,
       .evaluate = evaluateWeightGrad,
       .cost = costWeightGrad},
      {.name = "ConvBiasGrad",
       .inputs = {{"dY"}},
       .outputs = {{"dB"}},
       .infer = inferBiasGrad,
       .evaluate = evaluateBiasGrad},
  };
  return operators;
}

} // namespace pdc
