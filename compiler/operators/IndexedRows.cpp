#include "compiler/operators/IndexedRows.h"

#include "compiler/operators/Rules.h"

#include <optional>

namespace pdc {

static NodeValue wholeIndices(CompositionBuilder &b, NodeValue indices) {
  return b.type(indices).element == ElementType::i64
             ? indices
             : add(b, "Cast", {indices}, {{"to", int64_t(7)}});
}

/// Negative indices count from the end: `sizes` broadcasts over the indices.
static NodeValue fromStart(CompositionBuilder &b, NodeValue indices, const Tensor &sizes) {
  return add(b, "IndexFromStart", {indices, b.constant(sizes)});
}

/// Rows of a flat tensor where indices lie inside `sizes`. The others, which would name what
/// belongs to others, become rows outside of all (runtime/kernels/OutsideRows.h).
static NodeValue insideOf(CompositionBuilder &b, NodeValue indices, const Tensor &sizes,
                          NodeValue rows) {
  if (const Tensor *known = b.known(indices))
    for (size_t i = 0; i < known->data.size(); ++i)
      if (const double size = sizes.data[i % sizes.data.size()];
          known->data[i] < -size || known->data[i] >= size)
        b.refuse("index " + std::to_string(toInteger(known->data[i])) +
                 " is outside a dimension of " + std::to_string(toInteger(size)));
  return add(b, "RowInside", {indices, b.constant(sizes), rows});
}

IndexedRows rowsOfTuples(CompositionBuilder &b, size_t batch) {
  std::vector<int64_t> data = b.type(b.input(0)).shape, shape = b.type(b.input(1)).shape;
  if (shape.empty() || batch + shape.back() > data.size() || batch >= shape.size() ||
      shape.back() < 1)
    b.refuse("indices " + b.type(b.input(1)).toString() + " do not fit data " +
             b.type(b.input(0)).toString());
  const size_t width = shape.back(), end = batch + width;
  IndexedRows rows;
  rows.inner.assign(data.begin() + static_cast<int64_t>(end), data.end());
  rows.count = product(data, 0, end);
  std::vector<int64_t> sizes(data.begin() + static_cast<int64_t>(batch),
                             data.begin() + static_cast<int64_t>(end));
  const int64_t size = static_cast<int64_t>(width);
  NodeValue steps = b.constant(integersOf({size}, stridesOf(sizes)));
  NodeValue indices = wholeIndices(b, b.input(1));
  const Tensor bounds = integersOf({size}, sizes);
  NodeValue weighted =
      insideOf(b, indices, bounds, add(b, "Mul", {fromStart(b, indices, bounds), steps}));
  shape.pop_back();
  // One number per tuple.
  NodeValue sum = weighted;
  if (width > 1) {
    NodeValue parts = b.constant(Tensor::vector(std::vector<int64_t>(width, 1)));
    sum = add(b, "Sum", b.node("Split", {weighted, parts}, {{"axis", int64_t(-1)}}, width));
  }
  rows.indices = reshaped(b, sum, shape);
  if (batch == 0)
    return rows;
  // Each batch has its own rows.
  std::vector<int64_t> leading(shape.begin(), shape.begin() + static_cast<int64_t>(batch)), starts;
  for (int64_t i = 0; i < product(leading); ++i)
    starts.push_back(i * product(sizes));
  leading.resize(shape.size(), 1);
  rows.indices = add(b, "Add", {rows.indices, b.constant(integersOf(leading, starts))});
  return rows;
}

/// Of indices that are repeated for all elements behind the axis, as `index.unsqueeze(-1)
/// .expand_as(x)` makes them: they name whole rows, of which each is read once. Nothing where they
/// are others.
static std::optional<IndexedRows> rowsOfRepeated(CompositionBuilder &b, size_t axis) {
  const std::optional<ValueMaker> expand = b.maker(b.input(1));
  if (!expand || expand->op != "Expand")
    return std::nullopt;
  const NodeValue once = expand->inputs[0];
  const std::vector<int64_t> data = b.type(b.input(0)).shape, shape = b.type(b.input(1)).shape;
  std::vector<int64_t> named = b.type(once).shape;
  if (axis + 1 == data.size() || product(shape) == 0)
    return std::nullopt;
  named.insert(named.begin(), shape.size() - named.size(), 1);
  for (size_t d = 0; d < shape.size(); ++d)
    if ((d != axis && shape[d] != data[d]) || (d > axis && named[d] != 1))
      return std::nullopt;
  // Of each row of indices before the axis: its own rows of the data.
  const auto end = static_cast<int64_t>(axis) + 1;
  const std::vector<int64_t> leading(shape.begin(), shape.begin() + end);
  std::vector<int64_t> starts(leading), firsts;
  starts.back() = 1;
  for (int64_t i = 0; i < product(starts); ++i)
    firsts.push_back(i * data[axis]);
  named.resize(axis + 1);
  NodeValue indices = reshaped(b, wholeIndices(b, once), named);
  if (named != leading)
    indices = add(b, "Expand", {indices, b.constant(Tensor::vector(leading))});
  const Tensor size = integersOf({}, {data[axis]});
  NodeValue places = fromStart(b, indices, size);
  if (firsts.size() > 1)
    places = add(b, "Add", {places, b.constant(integersOf(starts, firsts))});
  return IndexedRows{insideOf(b, indices, size, places),
                     product(data, 0, axis + 1),
                     {data.begin() + end, data.end()}};
}

IndexedRows rowsOfElements(CompositionBuilder &b) {
  TensorType data = b.type(b.input(0)), indices = b.type(b.input(1));
  int64_t axis = b.attributes().integer("axis", 0);
  axis = axis < 0 ? axis + data.rank() : axis;
  if (axis < 0 || axis >= data.rank() || indices.rank() != data.rank())
    b.refuse("indices " + indices.toString() + " along axis " + std::to_string(axis) +
             " do not fit data " + data.toString());
  if (std::optional<IndexedRows> rows = rowsOfRepeated(b, static_cast<size_t>(axis)))
    return *rows;
  std::vector<int64_t> strides = stridesOf(data.shape), along = strides, bases;
  along[axis] = 0;
  std::vector<int64_t> index(indices.shape.size());
  for (int64_t i = 0; i < indices.elementCount(); ++i, advance(index, indices.shape))
    bases.push_back(offsetOf(index, along));
  NodeValue given = wholeIndices(b, b.input(1));
  const Tensor size = integersOf({}, {data.shape[axis]});
  NodeValue moved = add(
      b, "Mul", {fromStart(b, given, size), number(b, ElementType::i64, double(strides[axis]))});
  IndexedRows rows;
  rows.count = data.elementCount();
  NodeValue places = add(b, "Add", {moved, b.constant(integersOf(indices.shape, bases))});
  rows.indices = insideOf(b, given, size, places);
  return rows;
}

} // namespace pdc
