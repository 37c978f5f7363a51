#include "compiler/operators/Families.h"
#include "compiler/operators/Rules.h"

#include <algorithm>

namespace pdc {

/// Rotary position embedding as networks write it: with both halves of a row's width, y = x cos +
/// (-x2, x1) sin. `inverse`: y = x cos + ((x sin)2, -(x sin)1), the transposed, which is its
/// gradient. cos and sin have the width, and are repeated along what comes before it.
/// `interleaved`: x1 and x2 are not halves but every second element, from the first on and from the
/// second on, as in RotaryEmbedding (ONNX, opset 23).
namespace {

struct Rotation {
  int64_t half;
  bool isInverse, isInterleaved;
  std::vector<int64_t> strides; ///< of cos and sin, by dimension of x

  explicit Rotation(const NodeView &node)
      : half(node.input(0).shape.back() / 2), isInverse(node.attributes.integer("inverse", 0) != 0),
        isInterleaved(node.attributes.integer("interleaved", 0) != 0),
        strides(broadcastStrides(node.input(1).shape, node.input(0).shape)) {}

  bool isFirst(int64_t element) const { return isInterleaved ? element % 2 == 0 : element < half; }
  /// From the first of two that are turned together to the second.
  int64_t step() const { return isInterleaved ? 1 : half; }
};

std::vector<TensorType> inferRotation(const NodeView &node) {
  const TensorType &x = node.input(0), &cosines = node.input(1), &sines = node.input(2);
  const bool fits = x.rank() > 0 && x.shape.back() % 2 == 0 && cosines.rank() > 0 &&
                    cosines.shape == sines.shape && cosines.shape.back() == x.shape.back() &&
                    broadcastShape(node, cosines.shape, x.shape) == x.shape;
  if (!fits)
    refuse(node, "turns " + x.toString() + " by " + cosines.toString() + " and " +
                     sines.toString() +
                     ", expected an even width that all have, and angles that are repeated");
  return {x};
}

std::vector<Tensor> evaluateRotation(const NodeView &node, std::span<const Tensor *const> inputs) {
  const Rotation rotation(node);
  const Tensor &x = *inputs[0], &cosines = *inputs[1], &sines = *inputs[2];
  Tensor y = Tensor::zeros(x.type);
  std::vector<int64_t> index(x.type.shape.size());
  for (int64_t i = 0; i < x.type.elementCount(); ++i, advance(index, x.type.shape)) {
    const bool isFirst = rotation.isFirst(index.back());
    const int64_t step = isFirst ? rotation.step() : -rotation.step();
    const int64_t at = offsetOf(index, rotation.strides);
    const double other = x.data[i + step] * sines.data[rotation.isInverse ? at + step : at];
    y.data[i] = x.data[i] * cosines.data[at] + (isFirst == rotation.isInverse ? other : -other);
  }
  return {y};
}

void differentiateRotation(GradientBuilder &b) {
  const GradientValue dy = b.outputGradient(0), x = b.input(0);
  const bool isInverse = b.attributes().integer("inverse", 0) != 0;
  auto turning = [&](bool isInverse) {
    Attributes attributes = b.attributes();
    attributes.set("inverse", int64_t(isInverse));
    return attributes;
  };
  auto give = [&](size_t i, GradientValue of, GradientValue factor) {
    b.setInputGradient(i, reducedTo(b, add(b, "Mul", {of, factor}), b.type(b.input(i)).shape));
  };
  if (b.wants(0))
    b.setInputGradient(0,
                       add(b, "RotateHalves", {dy, b.input(1), b.input(2)}, turning(!isInverse)));
  if (b.wants(1))
    give(1, dy, x);
  if (!b.wants(2))
    return;
  // (-x2, x1) is x turned by angles of a quarter.
  const Tensor zeros = Tensor::zeros({b.type(x).element, {b.type(x).shape.back()}});
  Tensor ones = zeros;
  std::fill(ones.data.begin(), ones.data.end(), 1);
  give(2, isInverse ? x : dy,
       add(b, "RotateHalves", {isInverse ? dy : x, b.constant(zeros), b.constant(ones)},
           turning(false)));
}

} // namespace

std::span<const Operator> rotationOperators() {
  static const Operator operators[] = {
      {.name = "RotateHalves",
       .inputs = {{"X"}, {"cos"}, {"sin"}},
       .outputs = {{"Y"}},
       .infer = inferRotation,
       .evaluate = evaluateRotation,
       .differentiate = differentiateRotation},
  };
  return operators;
}

} // namespace pdc
