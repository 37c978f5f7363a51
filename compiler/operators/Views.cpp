#include "compiler/operators/Families.h"
#include "compiler/operators/Rules.h"

#include <algorithm>

namespace pdc {

static std::vector<TensorType> inferReshape(const NodeView &node) {
  const TensorType &x = node.input(0);
  std::vector<int64_t> shape = knownIntegers(node, 1);
  bool keepZero = node.attributes.integer("allowzero", 0) != 0;
  int64_t known = 1, open = -1;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 0 && !keepZero) {
      if (static_cast<int64_t>(i) >= x.rank())
        refuse(node, "shape " + shapeText(shape) + " copies a dimension that " + x.toString() +
                         " does not have");
      shape[i] = x.shape[i];
    }
    if (shape[i] < -1 || (shape[i] == -1 && open >= 0))
      refuse(node, "shape " + shapeText(shape) + ", expected at most one -1 and no other negative");
    if (shape[i] == -1)
      open = i;
    else
      known = TensorType{x.element, {known, shape[i]}}.elementCount();
  }
  if (open >= 0 && known != 0)
    shape[open] = x.elementCount() / known;
  TensorType y{x.element, shape};
  if (std::count(shape.begin(), shape.end(), -1) || y.elementCount() != x.elementCount())
    refuse(node, "cannot bring " + x.toString() + " to shape " + shapeText(shape));
  return {y};
}

static std::vector<TensorType> inferFlatten(const NodeView &node) {
  const TensorType &x = node.input(0);
  int64_t axis = node.attributes.integer("axis", 1);
  if (axis < -x.rank() || axis > x.rank())
    refuse(node, "axis " + std::to_string(axis) + " is outside " + x.toString());
  if (axis < 0)
    axis += x.rank();
  return {{x.element, {product(x.shape, 0, axis), product(x.shape, axis)}}};
}

/// With the attribute `where_one`, which ONNX does not have, dimensions of other sizes stay.
static std::vector<TensorType> inferSqueeze(const NodeView &node) {
  const TensorType &x = node.input(0);
  const bool whereOne = node.attributes.integer("where_one", 0) != 0;
  std::vector<int64_t> axes;
  if (node.hasInput(1))
    axes = axesFromStart(node, knownIntegers(node, 1), x.rank());
  TensorType y{x.element, {}};
  for (int64_t d = 0; d < x.rank(); ++d) {
    bool named = std::find(axes.begin(), axes.end(), d) != axes.end();
    if (named && x.shape[d] != 1 && !whereOne)
      refuse(node, "dimension " + std::to_string(d) + " of " + x.toString() +
                       " is not 1: PyTorch's squeeze leaves it as it is, ONNX's does not; export "
                       "the network without it");
    if (x.shape[d] != 1 || (node.hasInput(1) && !named))
      y.shape.push_back(x.shape[d]);
  }
  return {y};
}

static std::vector<TensorType> inferUnsqueeze(const NodeView &node) {
  const TensorType &x = node.input(0);
  std::vector<int64_t> axes = knownIntegers(node, 1);
  int64_t rank = x.rank() + static_cast<int64_t>(axes.size());
  axes = axesFromStart(node, axes, rank);
  TensorType y{x.element, {}};
  size_t next = 0;
  for (int64_t d = 0; d < rank; ++d) {
    bool added = std::find(axes.begin(), axes.end(), d) != axes.end();
    y.shape.push_back(added ? 1 : x.shape[next++]);
  }
  return {y};
}

static void normaliseAxes(ImportedNode &node, int opset) {
  if (opset < 13)
    attributeToInput(node, "axes", 1);
}

static void differentiateIdentity(GradientBuilder &b) {
  if (b.wants(0))
    b.setInputGradient(0, b.outputGradient(0));
}

static Operator stopGradient() {
  return {.name = "pdc.StopGradient",
          .firstOpset = 1,
          .lastOpset = 1,
          .kind = OperatorClass::view,
          .inputs = {{"input"}},
          .outputs = {{"output"}},
          .infer = inferLikeFirst,
          .evaluate = evaluateAsView,
          .stopsGradient = true};
}

std::span<const Operator> viewOperators() {
  auto view = [](std::string_view name, std::vector<Parameter> inputs,
                 std::vector<TensorType> (*infer)(const NodeView &),
                 void (*normalise)(ImportedNode &, int) = nullptr) {
    return Operator{.name = name,
                    .firstOpset = kFirstOpset,
                    .lastOpset = kLastOpset,
                    .kind = OperatorClass::view,
                    .inputs = std::move(inputs),
                    .outputs = {{"Y"}},
                    .normalise = normalise,
                    .infer = infer,
                    .evaluate = evaluateAsView,
                    .differentiate = differentiateAsView};
  };
  static const Operator operators[] = {
      view("Reshape", {{"data"}, {.name = "shape", .known = true}}, inferReshape),
      view("Flatten", {{"input"}}, inferFlatten),
      view("Squeeze", {{"data"}, {.name = "axes", .optional = true, .known = true}}, inferSqueeze,
           normaliseAxes),
      view("Unsqueeze", {{"data"}, {.name = "axes", .known = true}}, inferUnsqueeze, normaliseAxes),
      view("Identity", {{"input"}}, inferLikeFirst),
      // The same values, which the loss's gradient does not go back through. Only importers make
      // it.
      stopGradient(),
      // The same values in another physical order, which is part of the type in the IR only.
      Operator{.name = "Reorder",
               .inputs = {{"X"}},
               .outputs = {{"Y"}},
               .infer = inferLikeFirst,
               .evaluate = evaluateAsView,
               .differentiate = differentiateIdentity},
  };
  return operators;
}

} // namespace pdc
