#include "compiler/operators/Families.h"
#include "compiler/operators/Rules.h"

#include <algorithm>
#include <cmath>

namespace pdc {

/// LayerNormalization, and RMSNormalization, which leaves the mean of its rows where it is: its
/// gradients are the other's without operand Mean.

/// The gradient needs the mean and the inverse deviation of each row.
static void normaliseRows(ImportedNode &node, int opset) {
  if (int64_t type = node.attributes.integer("stash_type", 1); type != 1)
    refuse(node, opset, "stash_type is " + std::to_string(type) + ", expected 1 (float32)");
  node.attributes.erase("stash_type");
  node.attributes.set("axis", node.attributes.integer("axis", -1));
  node.attributes.set("epsilon", node.attributes.number("epsilon", 1e-5));
  node.outputs.resize(node.op == "LayerNormalization" ? 3 : 2);
}

/// `rows` rows of `size` neighbouring elements are normalised, each by itself.
struct NormalisedRows {
  std::vector<int64_t> normalised; ///< the dimensions of a row
  std::vector<int64_t> statistics; ///< shape of mean and inverse deviation: ones for those
  int64_t rows, size;

  NormalisedRows(const NodeView &node, const std::vector<int64_t> &shape) {
    int64_t axis = axisFromStart(node, node.attributes.integer("axis", -1), shape.size());
    normalised.assign(shape.begin() + axis, shape.end());
    statistics = shape;
    std::fill(statistics.begin() + axis, statistics.end(), 1);
    rows = product(shape, 0, axis);
    size = product(shape, axis);
    if (size == 0)
      refuse(node, "rows of shape " + shapeText(shape) + " from axis " + std::to_string(axis) +
                       " on are empty");
  }
};

/// Scale and bias are repeated over the rows, along some of a row's dimensions too.
static void checkRepeats(const NodeView &node, const NormalisedRows &rows, size_t input) {
  const TensorType &type = node.input(input);
  if (type.rank() > static_cast<int64_t>(rows.normalised.size()) ||
      broadcastShape(node, type.shape, rows.normalised) != rows.normalised)
    refuse(node, "input " + std::to_string(input) + " is " + type.toString() +
                     ", which does not broadcast to the normalised dimensions " +
                     shapeText(rows.normalised));
}

static std::vector<TensorType> inferLayerNormalization(const NodeView &node) {
  const TensorType &x = node.input(0);
  NormalisedRows rows(node, x.shape);
  checkRepeats(node, rows, 1);
  if (node.hasInput(2))
    checkRepeats(node, rows, 2);
  TensorType statistic{sumElement(x.element), rows.statistics};
  return {x, statistic, statistic};
}

static std::vector<TensorType> inferRootMeanSquare(const NodeView &node) {
  const TensorType &x = node.input(0);
  NormalisedRows rows(node, x.shape);
  checkRepeats(node, rows, 1);
  return {x, {sumElement(x.element), rows.statistics}};
}

/// The value at element k of a row of what is repeated over rows.
static std::vector<double> overRow(const Tensor &tensor, const NormalisedRows &rows) {
  auto strides = broadcastStrides(tensor.type.shape, rows.normalised);
  std::vector<int64_t> index(rows.normalised.size());
  std::vector<double> values(rows.size);
  for (double &value : values) {
    value = tensor.data[offsetOf(index, strides)];
    advance(index, rows.normalised);
  }
  return values;
}

static std::vector<Tensor> evaluateLayerNormalization(const NodeView &node,
                                                      std::span<const Tensor *const> inputs) {
  const Tensor &x = *inputs[0];
  NormalisedRows rows(node, x.type.shape);
  double epsilon = node.attributes.number("epsilon", 1e-5);
  std::vector<double> scale = overRow(*inputs[1], rows), bias(rows.size, 0);
  if (inputs.size() > 2 && inputs[2])
    bias = overRow(*inputs[2], rows);
  std::vector<TensorType> types = inferLayerNormalization(node);
  Tensor y = x, mean = Tensor::zeros(types[1]), inverse = mean;
  for (int64_t r = 0; r < rows.rows; ++r) {
    double *row = y.data.data() + r * rows.size;
    double variance = 0;
    for (int64_t k = 0; k < rows.size; ++k)
      mean.data[r] += row[k] / rows.size;
    for (int64_t k = 0; k < rows.size; ++k)
      variance += (row[k] - mean.data[r]) * (row[k] - mean.data[r]) / rows.size;
    inverse.data[r] = 1 / std::sqrt(variance + epsilon);
    for (int64_t k = 0; k < rows.size; ++k)
      row[k] = (row[k] - mean.data[r]) * inverse.data[r] * scale[k] + bias[k];
  }
  return {y, mean, inverse};
}

static std::vector<Tensor> evaluateRootMeanSquare(const NodeView &node,
                                                  std::span<const Tensor *const> inputs) {
  const Tensor &x = *inputs[0];
  NormalisedRows rows(node, x.type.shape);
  std::vector<double> scale = overRow(*inputs[1], rows);
  Tensor y = x, inverse = Tensor::zeros(inferRootMeanSquare(node)[1]);
  for (int64_t r = 0; r < rows.rows; ++r) {
    double *row = y.data.data() + r * rows.size;
    double squares = 0;
    for (int64_t k = 0; k < rows.size; ++k)
      squares += row[k] * row[k] / rows.size;
    inverse.data[r] = 1 / std::sqrt(squares + node.attributes.number("epsilon", 1e-5));
    for (int64_t k = 0; k < rows.size; ++k)
      row[k] *= inverse.data[r] * scale[k];
  }
  return {y, inverse};
}

/// From what the forward pass kept of each row; `mean` is null where rows keep theirs.
static void addRowGradients(GradientBuilder &b, GradientValue mean, GradientValue inverse) {
  GradientValue dy = b.outputGradient(0);
  if (b.outputGradient(1) || b.outputGradient(2))
    throw Error("the mean and the deviation of a normalisation have no gradient");
  if (b.wants(0))
    b.setInputGradient(0, add(b, "LayerNormalizationInputGrad",
                              {dy, b.input(0), b.input(1), mean, inverse}, b.attributes()));
  Attributes forScale = b.attributes();
  forScale.set("scale_shape", b.type(b.input(1)).shape);
  if (b.wants(1))
    b.setInputGradient(
        1, add(b, "LayerNormalizationScaleGrad", {dy, b.input(0), mean, inverse}, forScale));
}

static void differentiateRootMeanSquare(GradientBuilder &b) { addRowGradients(b, {}, b.output(1)); }

static void differentiateLayerNormalization(GradientBuilder &b) {
  GradientValue dy = b.outputGradient(0);
  addRowGradients(b, b.output(1), b.output(2));
  if (b.wants(2))
    b.setInputGradient(2, reducedTo(b, dy, b.type(b.input(2)).shape));
}

static std::vector<TensorType> inferInputGrad(const NodeView &node) {
  checkRepeats(node, NormalisedRows(node, node.input(1).shape), 2);
  return {node.input(1)};
}

/// The mean of row r, or 0 where rows keep theirs.
static double meanOf(const Tensor *mean, int64_t r) { return mean ? mean->data[r] : 0; }

/// With g = dy scale and h the normalised row: dx = inverse (g - mean(g) - h mean(g h)), without
/// mean(g) where rows keep their mean.
static std::vector<Tensor> evaluateInputGrad(const NodeView &node,
                                             std::span<const Tensor *const> inputs) {
  const Tensor &dy = *inputs[0], &x = *inputs[1], *mean = inputs[3], &inverse = *inputs[4];
  NormalisedRows rows(node, x.type.shape);
  std::vector<double> scale = overRow(*inputs[2], rows);
  Tensor dx = Tensor::zeros(x.type);
  for (int64_t r = 0; r < rows.rows; ++r) {
    auto at = [&](int64_t k) { return r * rows.size + k; };
    auto hat = [&](int64_t k) { return (x.data[at(k)] - meanOf(mean, r)) * inverse.data[r]; };
    double sum = 0, product = 0;
    for (int64_t k = 0; k < rows.size; ++k) {
      sum += mean ? dy.data.at(at(k)) * scale[k] : 0;
      product += dy.data[at(k)] * scale[k] * hat(k);
    }
    for (int64_t k = 0; k < rows.size; ++k)
      dx.data[at(k)] =
          inverse.data[r] * (dy.data[at(k)] * scale[k] - (sum + hat(k) * product) / rows.size);
  }
  return {dx};
}

static std::vector<TensorType> inferScaleGrad(const NodeView &node) {
  NormalisedRows(node, node.input(1).shape);
  TensorType scale{sumElement(node.input(1).element), node.attributes.integers("scale_shape")};
  if (broadcastShape(node, scale.shape, node.input(1).shape) != node.input(1).shape)
    refuse(node, "attribute 'scale_shape' " + shapeText(scale.shape) + " does not fit " +
                     node.input(1).toString());
  return {scale};
}

/// The sum of dy h over all that the scale is repeated along.
static std::vector<Tensor> evaluateScaleGrad(const NodeView &node,
                                             std::span<const Tensor *const> inputs) {
  const Tensor &dy = *inputs[0], &x = *inputs[1], *mean = inputs[2], &inverse = *inputs[3];
  NormalisedRows rows(node, x.type.shape);
  Tensor dscale = Tensor::zeros(inferScaleGrad(node)[0]);
  auto strides = broadcastStrides(dscale.type.shape, x.type.shape);
  std::vector<int64_t> index(x.type.rank());
  for (size_t i = 0; i < x.data.size(); ++i) {
    size_t r = i / rows.size;
    dscale.data[offsetOf(index, strides)] +=
        dy.data.at(i) * (x.data[i] - meanOf(mean, r)) * inverse.data[r];
    advance(index, x.type.shape);
  }
  return {dscale};
}

static Cost costRows(const NodeView &node, std::span<const TensorType> outputs) {
  Cost cost;
  for (const TensorType *type : node.inputs)
    cost.bytes += type ? type->bytes() : 0;
  for (const TensorType &type : outputs)
    cost.bytes += type.bytes();
  cost.flops = 8.0 * node.input(0).elementCount();
  return cost;
}

std::span<const Operator> layerNormalizationOperators() {
  static const Operator operators[] = {
      {.name = "LayerNormalization",
       .firstOpset = 17,
       .lastOpset = kLastOpset,
       .inputs = {{"X"}, {"Scale"}, {"B", true}},
       .outputs = {{"Y"}, {"Mean", true}, {"InvStdDev", true}},
       .elements = floatElements(),
       .normalise = normaliseRows,
       .infer = inferLayerNormalization,
       .evaluate = evaluateLayerNormalization,
       .differentiate = differentiateLayerNormalization,
       .cost = costRows},
      // ONNX has it since opset 23; ONNX Runtime's SimplifiedLayerNormalization is the same.
      {.name = "RMSNormalization",
       .firstOpset = 23,
       .lastOpset = kLastOpset,
       .inputs = {{"X"}, {"scale"}},
       .outputs = {{"Y"}, {"InvStdDev", true}},
       .elements = floatElements(),
       .normalise = normaliseRows,
       .infer = inferRootMeanSquare,
       .evaluate = evaluateRootMeanSquare,
       .differentiate = differentiateRootMeanSquare,
       .cost = costRows},
      {.name = "LayerNormalizationInputGrad",
       .inputs = {{"dY"}, {"X"}, {"Scale"}, {"Mean", true}, {"InvStdDev"}},
       .outputs = {{"dX"}},
       .infer = inferInputGrad,
       .evaluate = evaluateInputGrad,
       .cost = costRows},
      {.name = "LayerNormalizationScaleGrad",
       .inputs = {{"dY"}, {"X"}, {"Mean", true}, {"InvStdDev"}},
       .outputs = {{"dScale"}},
       .infer = inferScaleGrad,
       .evaluate = evaluateScaleGrad,
       .cost = costRows},
  };
  return operators;
}

} // namespace pdc
