#include "compiler/operators/Composition.h"
#include "compiler/operators/Rules.h"

#include <algorithm>

/// What a mask selects, as `data[mask]` and NonZero have it. How much that is only data tell, so
/// that there are as many rows as the mask has elements, and the first that is selected stands for
/// each that is not: what is computed of a row is nothing that the network would not compute, such
/// as the logarithm of a zero. The pass infer-shapes follows the rows to where they come together,
/// where only the selected ones count.
namespace pdc {

static NodeValue flagsOf(CompositionBuilder &b, NodeValue mask) {
  return b.type(mask).element == ElementType::boolean
             ? mask
             : add(b, "Cast", {mask}, {{"to", onnxType(ElementType::boolean)}});
}

/// Where a mask that is known holds.
static std::vector<int64_t> placesIn(const Tensor &mask) {
  std::vector<int64_t> places;
  for (size_t i = 0; i < mask.data.size(); ++i)
    if (mask.data[i] != 0)
      places.push_back(static_cast<int64_t>(i));
  return places;
}

NodeValue filledRows(CompositionBuilder &b, NodeValue rows, NodeValue flags, int64_t axis) {
  const std::vector<int64_t> shape = b.type(rows).shape;
  NodeValue order =
      add(b, "Cast", {reshaped(b, flags, {shape[axis]})}, {{"to", onnxType(ElementType::f32)}});
  NodeValue place = add(b, "ArgMax", {order}, {{"axis", int64_t(0)}, {"keepdims", int64_t(1)}});
  NodeValue first = add(b, "pdc.StopGradient", {add(b, "Gather", {rows, place}, {{"axis", axis}})});
  // Where none is selected, whole numbers may be no index at all.
  if (const ElementType element = b.type(rows).element; !isFloatingPoint(element)) {
    NodeValue isAny = add(b, "Gather", {reshaped(b, flags, {shape[axis]}), place});
    first = add(b, "Where", {reshaped(b, isAny, {}), first, number(b, element, 0)});
  }
  std::vector<int64_t> column(shape.size(), 1);
  column[axis] = shape[axis];
  return add(b, "Where", {reshaped(b, flags, column), rows, first});
}

static std::vector<NodeValue> composeSelectedRows(CompositionBuilder &b) {
  const TensorType data = b.type(b.input(0)), mask = b.type(b.input(1));
  if (mask.rank() < 1 || mask.rank() > data.rank() ||
      !std::equal(mask.shape.begin(), mask.shape.end(), data.shape.begin()))
    b.refuse("mask " + mask.toString() + ", expected one of the leading dimensions of " +
             data.toString());
  std::vector<int64_t> shape(data.shape.begin() + mask.rank(), data.shape.end());
  shape.insert(shape.begin(), mask.elementCount());
  NodeValue rows = reshaped(b, b.input(0), shape);
  if (const Tensor *known = b.known(b.input(1)))
    return {add(b, "Gather", {rows, b.constant(Tensor::vector(placesIn(*known)))},
                {{"axis", int64_t(0)}})};
  if (mask.elementCount() == 0)
    return {rows};
  return {filledRows(b, rows, flagsOf(b, b.input(1)), 0)};
}

/// [dimensions of the mask, its elements].
static std::vector<NodeValue> composeSelectedPlaces(CompositionBuilder &b) {
  const TensorType mask = b.type(b.input(0));
  const int64_t count = mask.elementCount();
  std::vector<int64_t> places(static_cast<size_t>(mask.rank() * count));
  std::vector<int64_t> index(mask.shape.size());
  for (int64_t i = 0; i < count; ++i, advance(index, mask.shape))
    for (int64_t d = 0; d < mask.rank(); ++d)
      places[static_cast<size_t>(d * count + i)] = index[static_cast<size_t>(d)];
  NodeValue all = b.constant(integersOf({mask.rank(), count}, places));
  if (const Tensor *known = b.known(b.input(0)))
    return {add(b, "Gather", {all, b.constant(Tensor::vector(placesIn(*known)))},
                {{"axis", int64_t(1)}})};
  if (count == 0 || mask.rank() == 0)
    return {all};
  return {filledRows(b, all, flagsOf(b, b.input(0)), 1)};
}

std::span<const ComposedOperator> selectedForms() {
  static const ComposedOperator operators[] = {
      {{.name = "pdc.SelectedPlaces",
        .firstOpset = 1,
        .lastOpset = 1,
        .inputs = {{"mask"}},
        .outputs = {{"places"}}},
       composeSelectedPlaces},
      {{.name = "pdc.SelectedRows",
        .firstOpset = 1,
        .lastOpset = 1,
        .inputs = {{"data"}, {"mask"}},
        .outputs = {{"rows"}}},
       composeSelectedRows},
  };
  return operators;
}

} // namespace pdc
