#include "compiler/operators/Composition.h"
#include "compiler/operators/Families.h"
#include "compiler/operators/Rules.h"

#include <algorithm>
#include <numeric>

/// Pad: with a constant, or with elements of the input. Negative pads crop.
namespace pdc {

static std::string modeOf(const Attributes &attributes) {
  return attributes.string("mode", "constant");
}

static void normalisePad(ImportedNode &node, int opset) {
  std::string mode = modeOf(node.attributes);
  if (mode != "constant" && mode != "edge" && mode != "reflect" && mode != "wrap")
    refuse(node, opset,
           "mode '" + mode +
               "' is unknown; supported are 'constant', 'edge', 'reflect' and 'wrap'");
  if (opset >= 11)
    return;
  attributeToInput(node, "pads", 1);
  double value = node.attributes.number("value", 0);
  node.attributes.erase("value");
  if (value != 0)
    setInput(node, 2, node.addConstant(Tensor::scalar(ElementType::f32, value)));
}

/// Pads of some axes only (input `axes`) become those of all: what is before each dimension, then
/// what is behind it.
static std::vector<int64_t> padsOfAll(std::vector<int64_t> pads, const std::vector<int64_t> &axes,
                                      int64_t rank) {
  std::vector<int64_t> all(2 * rank, 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    all[axes[i]] = pads[i];
    all[axes[i] + rank] = pads[i + axes.size()];
  }
  return all;
}

static std::vector<int64_t> padsOf(const NodeView &node) {
  const int64_t rank = node.input(0).rank();
  std::vector<int64_t> pads = knownIntegers(node, 1), axes(rank);
  std::iota(axes.begin(), axes.end(), 0);
  if (node.hasInput(3))
    axes = axesFromStart(node, knownIntegers(node, 3), rank);
  if (pads.size() != 2 * axes.size())
    refuse(node, "pads " + shapeText(pads) + " for " +
                     (node.hasInput(3) ? "axes " + shapeText(axes) + " of " : "") + "input " +
                     node.input(0).toString());
  return padsOfAll(pads, axes, rank);
}

static std::vector<TensorType> inferPad(const NodeView &node) {
  TensorType y = node.input(0);
  std::vector<int64_t> pads = padsOf(node);
  for (size_t d = 0; d < y.shape.size(); ++d) {
    const int64_t size = y.shape[d], before = pads[d], behind = pads[d + y.shape.size()];
    for (int64_t pad : {before, behind})
      if (pad > int64_t(1) << 31 || pad < -size)
        refuse(node,
               "pads " + shapeText(pads) + " are out of range for " + node.input(0).toString());
    const int64_t kept = size - std::max<int64_t>(0, -before) - std::max<int64_t>(0, -behind);
    y.shape[d] += before + behind;
    const bool repeatsNothing = modeOf(node.attributes) != "constant" && kept < 1 && y.shape[d] > 0;
    if (y.shape[d] < 0 || repeatsNothing)
      refuse(node, "pads " + shapeText(pads) + " leave nothing of " + node.input(0).toString());
  }
  return {y};
}

/// Which element of `size` stands at each place of the padded dimension; -1: the constant. What
/// negative pads crop is gone before the rest is repeated.
static std::vector<int64_t> sourcesOf(std::string_view mode, int64_t size, int64_t before,
                                      int64_t behind) {
  const int64_t first = std::max<int64_t>(0, -before);
  const int64_t kept = size - first - std::max<int64_t>(0, -behind);
  std::vector<int64_t> sources;
  for (int64_t p = -std::max<int64_t>(0, before); p < kept + std::max<int64_t>(0, behind); ++p) {
    int64_t at = p;
    if (mode == "edge")
      at = std::clamp<int64_t>(p, 0, kept - 1);
    if (mode == "wrap")
      at = (p % kept + kept) % kept;
    if (mode == "reflect") {
      const int64_t period = std::max<int64_t>(1, 2 * (kept - 1));
      at = (p % period + period) % period;
      at = std::min(at, period - at) % std::max<int64_t>(1, kept);
    }
    sources.push_back(at >= 0 && at < kept ? first + at : -1);
  }
  return sources;
}

static std::vector<Tensor> evaluatePad(const NodeView &node,
                                       std::span<const Tensor *const> inputs) {
  NodeView known = node;
  known.constants = inputs;
  const Tensor &x = *inputs[0];
  Tensor y = Tensor::zeros(typesFrom(node, inputs)[0]);
  const double value = inputs.size() > 2 && inputs[2] ? inputs[2]->data.at(0) : 0;
  std::vector<int64_t> pads = padsOf(known), strides = stridesOf(x.type.shape);
  std::vector<std::vector<int64_t>> sources;
  for (size_t d = 0; d < strides.size(); ++d)
    sources.push_back(
        sourcesOf(modeOf(node.attributes), x.type.shape[d], pads[d], pads[d + strides.size()]));
  std::vector<int64_t> index(y.type.rank());
  for (double &element : y.data) {
    int64_t offset = 0;
    bool inside = true;
    for (size_t d = 0; d < index.size(); ++d) {
      inside = inside && sources[d][index[d]] >= 0;
      offset += sources[d][index[d]] * strides[d];
    }
    element = inside ? x.data[offset] : value;
    advance(index, y.type.shape);
  }
  return {y};
}

static void differentiatePad(GradientBuilder &b) {
  if (!b.wants(0))
    return;
  // The pads may be known to the graph only; an operator of ours takes them as they came.
  b.setInputGradient(0, add(b, "PadGrad", {b.outputGradient(0), b.input(1)},
                            {{"input_shape", b.type(b.input(0)).shape}}));
}

static std::vector<TensorType> inferPadGrad(const NodeView &node) {
  return {{node.input(0).element, node.attributes.integers("input_shape")}};
}

static std::vector<Tensor> evaluatePadGrad(const NodeView &node,
                                           std::span<const Tensor *const> inputs) {
  const Tensor &dy = *inputs[0];
  Tensor dx = Tensor::zeros(inferPadGrad(node)[0]);
  std::vector<int64_t> pads = inputs[1]->toIntegers(), strides = stridesOf(dy.type.shape);
  std::vector<int64_t> index(dx.type.rank());
  for (double &element : dx.data) {
    int64_t offset = 0;
    bool inside = true;
    for (size_t d = 0; d < index.size(); ++d) {
      int64_t place = index[d] + pads[d];
      inside = inside && place >= 0 && place < dy.type.shape[d];
      offset += place * strides[d];
    }
    element = inside ? dy.data[offset] : 0;
    advance(index, dx.type.shape);
  }
  return {dx};
}

/// With elements of the input: a Gather along each dimension that grows or shrinks. With a constant
/// on some axes: the same on all.
static std::vector<NodeValue> composePad(CompositionBuilder &b) {
  const std::string mode = modeOf(b.attributes());
  const TensorType x = b.type(b.input(0));
  const size_t rank = x.shape.size();
  if (mode == "constant" && !b.input(3))
    return {};
  std::vector<int64_t> pads = knownIntegers(b, 1);
  if (b.input(3)) {
    std::vector<int64_t> axes = knownIntegers(b, 3);
    for (int64_t &axis : axes)
      axis += axis < 0 ? x.rank() : 0;
    pads = padsOfAll(pads, axes, x.rank());
  }
  if (mode == "constant")
    return {
        add(b, "Pad", {b.input(0), b.constant(Tensor::vector(pads)), b.input(2)}, b.attributes())};
  NodeValue y = b.input(0);
  for (size_t d = 0; d < rank; ++d)
    if (pads[d] != 0 || pads[d + rank] != 0)
      y = add(b, "Gather",
              {y, b.constant(Tensor::vector(sourcesOf(mode, x.shape[d], pads[d], pads[d + rank])))},
              {{"axis", static_cast<int64_t>(d)}});
  return {y};
}

std::span<const ComposedForm> padForms() {
  static const ComposedForm forms[] = {{"Pad", composePad}};
  return forms;
}

std::span<const Operator> padOperators() {
  static const Operator operators[] = {
      {.name = "Pad",
       .firstOpset = kFirstOpset,
       .lastOpset = kLastOpset,
       .inputs = {{"data"},
                  {.name = "pads", .known = true},
                  {.name = "constant_value", .optional = true, .known = true},
                  {.name = "axes", .optional = true, .known = true}},
       .outputs = {{"output"}},
       .normalise = normalisePad,
       .infer = inferPad,
       .evaluate = evaluatePad,
       .differentiate = differentiatePad},
      {.name = "PadGrad",
       .inputs = {{"dY"}, {.name = "pads", .known = true}},
       .outputs = {{"dX"}},
       .infer = inferPadGrad,
       .evaluate = evaluatePadGrad},
  };
  return operators;
}

} // namespace pdc
