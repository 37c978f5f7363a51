#include "compiler/operators/Families.h"
#include "compiler/operators/Rules.h"
#include "compiler/operators/Slice.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace pdc {

SliceRange resolveSlice(const NodeView &node, const std::vector<int64_t> &shape, size_t first) {
  std::vector<int64_t> starts = knownIntegers(node, first), ends = knownIntegers(node, first + 1);
  std::vector<int64_t> axes, steps(starts.size(), 1);
  for (size_t i = 0; i < starts.size(); ++i)
    axes.push_back(i);
  if (node.hasInput(first + 2))
    axes = knownIntegers(node, first + 2);
  axes = axesFromStart(node, axes, shape.size());
  if (node.hasInput(first + 3))
    steps = knownIntegers(node, first + 3);
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
    refuse(node, "starts, ends, axes and steps differ in length");
  SliceRange range{std::vector<int64_t>(shape.size(), 0), std::vector<int64_t>(shape.size(), 1),
                   shape};
  for (size_t i = 0; i < axes.size(); ++i) {
    int64_t size = shape[axes[i]], step = steps[i];
    if (step == 0)
      refuse(node, "a step of 0");
    // Anything outside is clamped, so that far ends mean "to the end".
    auto clamp = [&](int64_t value) {
      value = value < 0 ? std::max<int64_t>(value, -size - 1) + size : value;
      return std::clamp<int64_t>(value, step > 0 ? 0 : -1, step > 0 ? size : size - 1);
    };
    int64_t start = clamp(starts[i]), end = clamp(ends[i]);
    step = std::clamp<int64_t>(step, -size - 1, size + 1);
    int64_t distance = step > 0 ? end - start : start - end;
    int64_t stride = step > 0 ? step : -step;
    range.start[axes[i]] = start;
    range.step[axes[i]] = step;
    range.count[axes[i]] = distance > 0 ? (distance + stride - 1) / stride : 0;
  }
  return range;
}

/// Calls visit(offset in the whole, offset in the slice).
template <class Visit>
static void forEachSliced(const SliceRange &range, const std::vector<int64_t> &shape, Visit visit) {
  std::vector<int64_t> strides = stridesOf(shape), index(shape.size());
  int64_t count = product(range.count);
  for (int64_t i = 0; i < count; ++i, advance(index, range.count)) {
    int64_t offset = 0;
    for (size_t d = 0; d < shape.size(); ++d)
      offset += (range.start[d] + index[d] * range.step[d]) * strides[d];
    visit(offset, i);
  }
}

static std::vector<TensorType> inferSlice(const NodeView &node) {
  const TensorType &x = node.input(0);
  const SliceRange range = resolveSlice(node, x.shape, 1);
  if (node.attributes.integer(kRefusesEmpty, 0) && product(range.count) == 0)
    refuse(node,
           "reads an element of a sequence that is not there: it would lie behind the end of " +
               x.toString());
  return {{x.element, range.count}};
}

static std::vector<Tensor> evaluateSlice(const NodeView &node,
                                         std::span<const Tensor *const> inputs) {
  const Tensor &x = *inputs[0];
  NodeView known = node;
  known.constants = inputs;
  SliceRange range = resolveSlice(known, x.type.shape, 1);
  Tensor y = Tensor::zeros({x.type.element, range.count});
  forEachSliced(range, x.type.shape, [&](int64_t i, int64_t o) { y.data[o] = x.data[i]; });
  return {y};
}

static void differentiateSlice(GradientBuilder &b) {
  if (!b.wants(0))
    return;
  std::vector<GradientValue> inputs = {b.outputGradient(0),
                                       b.constant(Tensor::vector(b.type(b.input(0)).shape))};
  for (size_t i = 1; i < b.inputCount(); ++i)
    inputs.push_back(b.input(i));
  b.setInputGradient(0, add(b, "SliceGrad", inputs));
}

static std::vector<TensorType> inferSliceGrad(const NodeView &node) {
  return {{node.input(0).element, knownIntegers(node, 1)}};
}

static std::vector<Tensor> evaluateSliceGrad(const NodeView &node,
                                             std::span<const Tensor *const> inputs) {
  NodeView known = node;
  known.constants = inputs;
  Tensor dx = Tensor::zeros(inferSliceGrad(known)[0]);
  forEachSliced(resolveSlice(known, dx.type.shape, 2), dx.type.shape,
                [&](int64_t i, int64_t o) { dx.data[i] += inputs[0]->data.at(o); });
  return {dx};
}

/// All of the result is filled, then what was picked is read and written.
static Cost costPutBack(const NodeView &node, std::span<const TensorType> outputs) {
  const double picked = node.input(0).bytes(), all = outputs[0].bytes();
  return {static_cast<double>(node.input(0).elementCount()), all + 2 * picked};
}

/// What is picked is read and written; what stands beside it is not.
static Cost costPicked(const NodeView &node, std::span<const TensorType> outputs) {
  double bytes = 2.0 * outputs[0].bytes();
  if (node.op == "Gather")
    bytes += node.input(1).bytes();
  return {0, bytes};
}

static void normaliseSlice(ImportedNode &node, int opset) {
  if (opset >= 10)
    return;
  attributeToInput(node, "starts", 1);
  attributeToInput(node, "ends", 2);
  attributeToInput(node, "axes", 3);
}

// Gather

/// Counted from 0; refuses an index outside of the dimension.
static int64_t indexFromStart(const NodeView &node, double number,
                              const std::vector<int64_t> &shape, int64_t axis) {
  const int64_t index = toInteger(number);
  if (index < -shape[axis] || index >= shape[axis])
    refuse(node, "index " + std::to_string(index) + " is outside dimension " +
                     std::to_string(axis) + " of " + shapeText(shape));
  return index < 0 ? index + shape[axis] : index;
}

static std::vector<TensorType> inferGather(const NodeView &node) {
  const TensorType &x = node.input(0), &indices = node.input(1);
  if (isFloatingPoint(indices.element))
    refuse(node, "indices are " + indices.toString() + ", expected integers");
  int64_t axis = axisFromStart(node, node.attributes.integer("axis", 0), x.rank());
  if (const Tensor *known = node.constant(1))
    for (double number : known->data)
      indexFromStart(node, number, x.shape, axis);
  TensorType y{x.element, {x.shape.begin(), x.shape.begin() + axis}};
  y.shape.insert(y.shape.end(), indices.shape.begin(), indices.shape.end());
  y.shape.insert(y.shape.end(), x.shape.begin() + axis + 1, x.shape.end());
  return {y};
}

/// Calls visit(offset in data, offset in the result) for each gathered element.
template <class Visit>
static void forEachGathered(const NodeView &node, const std::vector<int64_t> &shape,
                            const Tensor &indices, Visit visit) {
  int64_t axis = axisFromStart(node, node.attributes.integer("axis", 0), shape.size());
  int64_t outer = product(shape, 0, axis), inner = product(shape, axis + 1), result = 0;
  for (int64_t o = 0; o < outer; ++o)
    for (double number : indices.data) {
      const int64_t index = indexFromStart(node, number, shape, axis);
      for (int64_t i = 0; i < inner; ++i)
        visit((o * shape[axis] + index) * inner + i, result++);
    }
}

static std::vector<Tensor> evaluateGather(const NodeView &node,
                                          std::span<const Tensor *const> inputs) {
  const Tensor &x = *inputs[0];
  Tensor y = Tensor::zeros(inferGather(node)[0]);
  forEachGathered(node, x.type.shape, *inputs[1],
                  [&](int64_t i, int64_t o) { y.data[o] = x.data[i]; });
  return {y};
}

static void differentiateGather(GradientBuilder &b) {
  if (b.wants(0))
    b.setInputGradient(0, add(b, "GatherGrad",
                              {b.constant(Tensor::vector(b.type(b.input(0)).shape)), b.input(1),
                               b.outputGradient(0)},
                              b.attributes()));
}

static std::vector<TensorType> inferGatherGrad(const NodeView &node) {
  return {{sumElement(node.input(2).element), knownIntegers(node, 0)}};
}

static std::vector<Tensor> evaluateGatherGrad(const NodeView &node,
                                              std::span<const Tensor *const> inputs) {
  Tensor dx = Tensor::zeros(typesFrom(node, inputs)[0]);
  forEachGathered(node, dx.type.shape, *inputs[1],
                  [&](int64_t i, int64_t o) { dx.data[i] += inputs[2]->data.at(o); });
  return {dx};
}

/// Each row's gradient is that of the sum it went into.
static void differentiateGatherGrad(GradientBuilder &b) {
  if (b.wants(2))
    b.setInputGradient(2, add(b, "Gather", {b.outputGradient(0), b.input(1)}, b.attributes()));
}

static std::vector<TensorType> inferScatterMax(const NodeView &node) {
  return {{node.input(2).element, knownIntegers(node, 0)}};
}

/// The largest of the values that each row is named for, NaN if one is; -infinity where none is.
static std::vector<Tensor> evaluateScatterMax(const NodeView &node,
                                              std::span<const Tensor *const> inputs) {
  Tensor y = Tensor::zeros(typesFrom(node, inputs)[0]);
  std::fill(y.data.begin(), y.data.end(), -std::numeric_limits<double>::infinity());
  forEachGathered(node, y.type.shape, *inputs[1], [&](int64_t i, int64_t o) {
    const double value = inputs[2]->data.at(o);
    if (value > y.data[i] || std::isnan(value))
      y.data[i] = value;
  });
  return {y};
}

static constexpr Parameter kShape = {.name = "shape", .known = true};
static constexpr Parameter kRange[] = {{.name = "starts", .known = true},
                                       {.name = "ends", .known = true},
                                       {.name = "axes", .optional = true, .known = true},
                                       {.name = "steps", .optional = true, .known = true}};

std::span<const Operator> selectionOperators() {
  static const Operator operators[] = {
      {.name = "Slice",
       .firstOpset = kFirstOpset,
       .lastOpset = kLastOpset,
       .inputs = {{"data"}, kRange[0], kRange[1], kRange[2], kRange[3]},
       .outputs = {{"output"}},
       .normalise = normaliseSlice,
       .infer = inferSlice,
       .evaluate = evaluateSlice,
       .differentiate = differentiateSlice,
       .cost = costPicked},
      {.name = "SliceGrad",
       .inputs = {{"dY"}, kShape, kRange[0], kRange[1], kRange[2], kRange[3]},
       .outputs = {{"dX"}},
       .infer = inferSliceGrad,
       .evaluate = evaluateSliceGrad,
       .cost = costPutBack},
      {.name = "Gather",
       .firstOpset = kFirstOpset,
       .lastOpset = kLastOpset,
       .inputs = {{"data"}, {"indices"}},
       .outputs = {{"output"}},
       .infer = inferGather,
       .evaluate = evaluateGather,
       .differentiate = differentiateGather,
       .cost = costPicked},
      {.name = "GatherGrad",
       .inputs = {kShape, {"indices"}, {"dY"}},
       .outputs = {{"dX"}},
       .infer = inferGatherGrad,
       .evaluate = evaluateGatherGrad,
       .differentiate = differentiateGatherGrad},
      {.name = "ScatterMax",
       .inputs = {kShape, {"indices"}, {"values"}},
       .outputs = {{"largest"}},
       .infer = inferScatterMax,
       .evaluate = evaluateScatterMax},
  };
  return operators;
}

} // namespace pdc
