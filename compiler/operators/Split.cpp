#include "compiler/operators/Families.h"
#include "compiler/operators/Rules.h"

#include <algorithm>

namespace pdc {

/// The sizes are input 1 since opset 13, an attribute before; left out: equal parts. Since opset 18
/// `num_outputs` may stand in their place: the last part may then be smaller.
static void normaliseSplit(ImportedNode &node, int opset) {
  if (opset < 13)
    attributeToInput(node, "split", 1);
  node.attributes.set("axis", node.attributes.integer("axis", 0));
}

struct Parts {
  int64_t axis;
  std::vector<int64_t> sizes; ///< one per output
};

static Parts resolveSplit(const NodeView &node) {
  const TensorType &x = node.input(0);
  Parts parts{axisFromStart(node, node.attributes.integer("axis", 0), x.rank()), {}};
  int64_t whole = x.shape[parts.axis], count = static_cast<int64_t>(node.outputCount);
  if (node.hasInput(1)) {
    parts.sizes = knownIntegers(node, 1);
  } else if (node.attributes.has("num_outputs")) {
    int64_t size = count == 0 ? 0 : (whole + count - 1) / count;
    if (node.attributes.integer("num_outputs", 0) != count)
      refuse(node, "num_outputs is " + std::to_string(node.attributes.integer("num_outputs", 0)) +
                       " for " + std::to_string(count) + " outputs");
    parts.sizes.assign(count, size);
    if (count > 0)
      parts.sizes.back() = whole - size * (count - 1);
  } else {
    if (count == 0 || whole % count != 0)
      refuse(node, "dimension " + std::to_string(parts.axis) + " of " + x.toString() +
                       " does not split into " + std::to_string(count) + " equal parts");
    parts.sizes.assign(count, whole / count);
  }
  int64_t sum = 0;
  bool fits = static_cast<int64_t>(parts.sizes.size()) == count;
  for (int64_t size : parts.sizes) {
    fits = fits && size >= 0 && size <= whole;
    sum += fits ? size : 0;
  }
  if (!fits || sum != whole)
    refuse(node, "sizes " + shapeText(parts.sizes) + " for " + std::to_string(count) +
                     " outputs do not make dimension " + std::to_string(parts.axis) + " of " +
                     x.toString());
  return parts;
}

static std::vector<TensorType> inferSplit(const NodeView &node) {
  Parts parts = resolveSplit(node);
  std::vector<TensorType> types(parts.sizes.size(), node.input(0));
  for (size_t i = 0; i < types.size(); ++i)
    types[i].shape[parts.axis] = parts.sizes[i];
  return types;
}

static std::vector<Tensor> evaluateSplit(const NodeView &node,
                                         std::span<const Tensor *const> inputs) {
  std::vector<Tensor> results;
  for (const TensorType &type : typesFrom(node, inputs))
    results.push_back(Tensor::zeros(type));
  int64_t axis = axisFromStart(node, node.attributes.integer("axis", 0), node.input(0).rank());
  auto from = inputs[0]->data.begin();
  for (int64_t o = 0; o < product(node.input(0).shape, 0, axis); ++o)
    for (Tensor &result : results) {
      int64_t block = product(result.type.shape, axis);
      std::copy_n(from, block, result.data.begin() + o * block);
      from += block;
    }
  return results;
}

/// The parts side by side again. A part without gradient leaves zeros, so that the others are each
/// put into their place and added.
static void differentiateSplit(GradientBuilder &b) {
  if (!b.wants(0))
    return;
  TensorType whole = b.type(b.input(0));
  int64_t axis = b.attributes().integer("axis", 0), start = 0;
  axis = axis < 0 ? axis + whole.rank() : axis;
  std::vector<GradientValue> parts, padded;
  for (size_t i = 0; i < b.outputCount(); ++i)
    if (b.outputGradient(i))
      parts.push_back(b.outputGradient(i));
  if (parts.size() == b.outputCount())
    return b.setInputGradient(0, add(b, "Concat", parts, {{"axis", axis}}));
  for (size_t i = 0; i < b.outputCount(); ++i) {
    int64_t size = b.type(b.output(i)).shape[axis];
    std::vector<int64_t> pads(2 * whole.rank(), 0);
    pads[axis] = start;
    pads[whole.rank() + axis] = whole.shape[axis] - start - size;
    if (b.outputGradient(i))
      padded.push_back(add(b, "Pad", {b.outputGradient(i), b.constant(Tensor::vector(pads))}));
    start += size;
  }
  b.setInputGradient(0, padded.size() == 1 ? padded[0] : add(b, "Sum", padded));
}

std::span<const Operator> splitOperators() {
  static const Operator operators[] = {
      {.name = "Split",
       .firstOpset = kFirstOpset,
       .lastOpset = kLastOpset,
       .inputs = {{"input"}, {.name = "split", .optional = true, .known = true}},
       .outputs = {{"outputs", false, true}},
       .normalise = normaliseSplit,
       .infer = inferSplit,
       .evaluate = evaluateSplit,
       .differentiate = differentiateSplit},
  };
  return operators;
}

} // namespace pdc
