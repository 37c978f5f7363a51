#include "compiler/operators/Composition.h"
#include "compiler/operators/IndexedRows.h"
#include "compiler/operators/Rules.h"

#include <algorithm>

/// Operators that read or write elements at computed places: all are Gather, or its gradient, over
/// rows of a flat tensor.
namespace pdc {

static NodeValue gathered(CompositionBuilder &b, const IndexedRows &rows) {
  NodeValue flat = reshaped(b, rows.data, rows.flatShape());
  return add(b, "Gather", {flat, rows.indices}, {{"axis", int64_t(0)}});
}

/// Whether a row is hit, by a sum over its updates. GPUs say by NaN that an index is outside, which
/// is not to be lost here.
static NodeValue isNotZero(CompositionBuilder &b, NodeValue sum) {
  return add(b, "Not", {add(b, "Equal", {sum, number(b, b.type(sum).element, 0)})});
}

/// Of whole numbers: the places of updates are summed, not they themselves, which are exact.
static NodeValue scatteredWhole(CompositionBuilder &b, const IndexedRows &rows) {
  const int64_t updates = b.type(rows.indices).elementCount();
  if (updates >= int64_t(1) << 24)
    b.refuse(std::to_string(updates) + " updates of whole numbers, expected fewer than 2^24");
  Tensor places = Tensor::zeros({ElementType::f32, b.type(rows.indices).shape});
  for (int64_t i = 0; i < updates; ++i)
    places.data[static_cast<size_t>(i)] = static_cast<double>(i + 1); // 0: none
  // The places of several updates of one row are summed: another update may be read then, which is
  // right where all are equal; ONNX leaves open which counts.
  NodeValue sum =
      add(b, "GatherGrad",
          {b.constant(Tensor::vector({rows.count})), rows.indices, b.constant(std::move(places))},
          {{"axis", int64_t(0)}});
  NodeValue place =
      add(b, "Min", {sum, number(b, ElementType::f32, static_cast<double>(updates))});
  NodeValue isHit = isNotZero(b, place);
  NodeValue before =
      add(b, "Max",
          {add(b, "Sub", {place, number(b, ElementType::f32, 1)}), number(b, ElementType::f32, 0)});
  std::vector<int64_t> shape = rows.flatShape(), broadcast(shape.size(), 1);
  broadcast[0] = rows.count;
  NodeValue flat = reshaped(b, b.input(0), shape);
  shape[0] = updates;
  NodeValue found = add(b, "Gather",
                        {reshaped(b, b.input(2), shape),
                         add(b, "Cast", {before}, {{"to", onnxType(ElementType::i64)}})},
                        {{"axis", int64_t(0)}});
  return reshaped(b, add(b, "Where", {reshaped(b, isHit, broadcast), found, flat}),
                  b.type(b.input(0)).shape);
}

/// `value`, with the gradient of another that differs by rounding alone; none where that is not
/// finite.
static NodeValue withGradientOf(CompositionBuilder &b, NodeValue value, NodeValue other) {
  value = add(b, "pdc.StopGradient", {value});
  NodeValue nothing = add(b, "Sub", {other, add(b, "pdc.StopGradient", {other})});
  NodeValue isFinite = add(b, "Equal", {nothing, number(b, b.type(other).element, 0)});
  return add(b, "Where", {isFinite, add(b, "Add", {value, nothing}), value});
}

/// The largest of the data and the updates of its rows, or the smallest. Each of several that are
/// the largest has an equal share in its gradient, as in torch.scatter_reduce.
static NodeValue scatteredMost(CompositionBuilder &b, const IndexedRows &rows, bool isLeast) {
  const TensorType data = b.type(b.input(0));
  if (!isFloatingPoint(data.element))
    b.refuse("reduction of " + data.toString() + ", expected floating-point elements");
  auto signedFor = [&](NodeValue x) { return isLeast ? add(b, "Neg", {x}) : x; };
  auto atUpdates = [&](NodeValue x) {
    return add(b, "Gather", {x, rows.indices}, {{"axis", int64_t(0)}});
  };
  auto sumOfUpdates = [&](NodeValue x) {
    return add(b, "GatherGrad", {b.constant(Tensor::vector(rows.flatShape())), rows.indices, x},
               {{"axis", int64_t(0)}});
  };
  std::vector<int64_t> updated = b.type(rows.indices).shape;
  updated.insert(updated.end(), rows.inner.begin(), rows.inner.end());
  NodeValue one = number(b, data.element, 1), none = number(b, data.element, 0);

  // 1. Which are the largest, and how many.
  NodeValue flat = signedFor(reshaped(b, b.input(0), rows.flatShape())),
            updates = signedFor(reshaped(b, b.input(2), updated));
  NodeValue most =
      add(b, "Max",
          {flat, add(b, "ScatterMax",
                     {b.constant(Tensor::vector(rows.flatShape())), rows.indices, updates},
                     {{"axis", int64_t(0)}})});
  NodeValue isData = add(b, "Equal", {flat, most});
  NodeValue isUpdate = add(b, "Equal", {updates, atUpdates(most)});
  NodeValue count = add(
      b, "Add",
      {add(b, "Where", {isData, one, none}), sumOfUpdates(add(b, "Where", {isUpdate, one, none}))});

  // 2. Their mean has their gradients.
  NodeValue ofData = add(b, "Where", {isData, add(b, "Div", {flat, count}), none});
  NodeValue ofUpdates =
      add(b, "Where", {isUpdate, add(b, "Div", {updates, atUpdates(count)}), none});
  NodeValue mean = add(b, "Add", {ofData, sumOfUpdates(ofUpdates)});
  return reshaped(b, signedFor(withGradientOf(b, most, mean)), data.shape);
}

/// The data with the updates of input 2 put into its rows, added to them, or compared with them.
static NodeValue scattered(CompositionBuilder &b, const IndexedRows &rows) {
  std::string reduction = b.attributes().string("reduction", "none");
  if (reduction == "max" || reduction == "min")
    return scatteredMost(b, rows, reduction == "min");
  if (reduction != "none" && reduction != "add")
    b.refuse("reduction '" + reduction +
             "' is not supported; supported are none, add, max and min");
  TensorType data = b.type(b.input(0));
  if (!isFloatingPoint(data.element) && reduction == "none")
    return scatteredWhole(b, rows);
  NodeValue shape = b.constant(Tensor::vector(rows.flatShape()));
  NodeValue sums = add(b, "GatherGrad", {shape, rows.indices, b.input(2)}, {{"axis", int64_t(0)}});
  if (reduction == "add")
    return add(b, "Add", {b.input(0), reshaped(b, sums, data.shape)});
  Tensor ones = Tensor::zeros({data.element, b.type(rows.indices).shape});
  std::fill(ones.data.begin(), ones.data.end(), 1);
  NodeValue count = add(b, "GatherGrad",
                        {b.constant(Tensor::vector({rows.count})), rows.indices, b.constant(ones)},
                        {{"axis", int64_t(0)}});
  std::vector<int64_t> broadcast = {rows.count};
  broadcast.resize(1 + rows.inner.size(), 1);
  NodeValue isHit = isNotZero(b, count);
  NodeValue flat = reshaped(b, b.input(0), rows.flatShape());
  return reshaped(b, add(b, "Where", {reshaped(b, isHit, broadcast), sums, flat}), data.shape);
}

static std::vector<NodeValue> composeGatherND(CompositionBuilder &b) {
  return {gathered(b, rowsOfTuples(b, b.attributes().integer("batch_dims", 0)))};
}

static std::vector<NodeValue> composeGatherElements(CompositionBuilder &b) {
  return {gathered(b, rowsOfElements(b, true))};
}

static std::vector<NodeValue> composeScatterND(CompositionBuilder &b) {
  return {scattered(b, rowsOfTuples(b, 0))};
}

static std::vector<NodeValue> composeScatterElements(CompositionBuilder &b) {
  return {scattered(b, rowsOfElements(b, false))};
}

// OneHot, Hardmax

/// `on` where a new dimension at `axis` counts to the index, else `off`.
static NodeValue oneHot(CompositionBuilder &b, NodeValue indices, int64_t depth, int64_t axis,
                        NodeValue on, NodeValue off) {
  TensorType type = b.type(indices);
  std::vector<int64_t> shape = type.shape, counted(shape.size() + 1, 1), counts;
  axis = axis < 0 ? axis + static_cast<int64_t>(shape.size()) + 1 : axis;
  if (axis < 0 || axis > static_cast<int64_t>(shape.size()))
    b.refuse("axis " + std::to_string(axis) + " is outside the result");
  shape.insert(shape.begin() + axis, 1);
  counted[axis] = depth;
  for (int64_t i = 0; i < depth; ++i)
    counts.push_back(i);
  Tensor range = integersOf(counted, counts);
  range.type.element = type.element;
  NodeValue isHot = add(b, "Equal", {reshaped(b, indices, shape), b.constant(range)});
  return add(b, "Where", {isHot, on, off});
}

/// Of all counts the only one that ONNX lets be a number of any type.
static int64_t depthOf(CompositionBuilder &b) {
  const Tensor *depth = b.known(b.input(1));
  const bool isReal = depth && isFloatingPoint(depth->type.element) && depth->data.size() == 1;
  return isReal ? depth->toIntegers()[0] : knownIntegers(b, 1).at(0);
}

static std::vector<NodeValue> composeOneHot(CompositionBuilder &b) {
  const int64_t depth = depthOf(b);
  ElementType element = b.type(b.input(0)).element;
  NodeValue size = number(b, element, static_cast<double>(depth));
  NodeValue isNegative = add(b, "Less", {b.input(0), number(b, element, 0)});
  NodeValue indices =
      add(b, "Where", {isNegative, add(b, "Add", {b.input(0), size}), b.input(0)});
  auto value = [&](double place) {
    return add(b, "Gather", {b.input(2), number(b, ElementType::i64, place)}, {{"axis", int64_t(0)}});
  };
  return {oneHot(b, indices, depth, b.attributes().integer("axis", -1), value(1), value(0))};
}

static void normaliseHardmax(ImportedNode &node, int opset) {
  if (opset < 13)
    refuse(node, opset, "supported from opset 13 on, which works along one axis");
}

static std::vector<NodeValue> composeHardmax(CompositionBuilder &b) {
  TensorType x = b.type(b.input(0));
  const int64_t axis = axisFromStart(b, b.attributes().integer("axis", -1));
  NodeValue most = add(b, "ArgMax", {b.input(0)}, {{"axis", axis}, {"keepdims", int64_t(0)}});
  return {oneHot(b, most, x.shape[axis], axis, number(b, x.element, 1), number(b, x.element, 0))};
}

/// The elements, or the slices along an axis, that a constant condition names.
static std::vector<NodeValue> composeCompress(CompositionBuilder &b) {
  const std::vector<int64_t> condition = knownIntegers(b, 1);
  const TensorType x = b.type(b.input(0));
  NodeValue data = b.input(0);
  int64_t axis = 0;
  if (b.attributes().has("axis"))
    axis = axisFromStart(b, b.attributes().integer("axis", 0));
  else
    data = reshaped(b, data, {x.elementCount()});
  const std::vector<int64_t> shape = b.type(data).shape;
  std::vector<int64_t> places;
  for (size_t i = 0; i < condition.size(); ++i)
    if (condition[i] != 0)
      places.push_back(static_cast<int64_t>(i));
  if (places.empty() || static_cast<int64_t>(condition.size()) > shape[axis])
    b.refuse("chooses " + std::to_string(places.size()) + " of " +
             std::to_string(condition.size()) + " along " + std::to_string(shape[axis]) +
             ", expected at least one");
  return {add(b, "Gather", {data, b.constant(Tensor::vector(places))}, {{"axis", axis}})};
}

std::span<const ComposedOperator> indexingForms() {
  static const ComposedOperator operators[] = {
      {{.name = "Compress",
       .firstOpset = 9,
       .lastOpset = kLastOpset,
       .inputs = {{"input"}, {.name = "condition", .known = true}},
       .outputs = {{"output"}}},
       composeCompress},
      {{.name = "GatherElements",
       .firstOpset = 11,
       .lastOpset = kLastOpset,
       .inputs = {{"data"}, {"indices"}},
       .outputs = {{"output"}}},
       composeGatherElements},
      {{.name = "GatherND",
       .firstOpset = 11,
       .lastOpset = kLastOpset,
       .inputs = {{"data"}, {"indices"}},
       .outputs = {{"output"}}},
       composeGatherND},
      {{.name = "Hardmax",
       .firstOpset = 13,
       .lastOpset = kLastOpset,
       .inputs = {{"input"}},
       .outputs = {{"output"}},
       .elements = floatElements(),
       .normalise = normaliseHardmax},
       composeHardmax},
      {{.name = "OneHot",
       .firstOpset = 9,
       .lastOpset = kLastOpset,
       .inputs = {{"indices"}, {.name = "depth", .known = true}, {"values"}},
       .outputs = {{"output"}}},
       composeOneHot},
      {{.name = "ScatterElements",
       .firstOpset = 11,
       .lastOpset = kLastOpset,
       .inputs = {{"data"}, {"indices"}, {"updates"}},
       .outputs = {{"output"}}},
       composeScatterElements},
      {{.name = "ScatterND",
       .firstOpset = 11,
       .lastOpset = kLastOpset,
       .inputs = {{"data"}, {"indices"}, {"updates"}},
       .outputs = {{"output"}}},
       composeScatterND},
  };
  return operators;
}

} // namespace pdc
