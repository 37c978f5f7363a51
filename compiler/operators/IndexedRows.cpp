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
  IndexedRows rows{b.input(0), {}, 1, {}};
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

namespace {

/// A tensor as it lies in memory. What repeats another is that one, with steps of 0.
struct LyingTensor {
  NodeValue value;
  std::vector<int64_t> shape, strides; ///< as it is indexed
  std::vector<int64_t> once;           ///< the shape of `value`, of as many dimensions
};

} // namespace

static LyingTensor lying(CompositionBuilder &b, NodeValue value, bool mayBeRepeated) {
  LyingTensor result{value, b.type(value).shape, {}, {}};
  if (std::optional<ValueMaker> made = b.maker(value);
      mayBeRepeated && made && made->op == "Expand")
    result.value = made->inputs[0];
  result.once = b.type(result.value).shape;
  result.strides = broadcastStrides(result.once, result.shape);
  result.once.insert(result.once.begin(), result.shape.size() - result.once.size(), 1);
  return result;
}

/// Multiples of `stride` that the places of `shape` stand apart from the first one: of size 1 along
/// dimensions that make no difference.
static Tensor startsOf(std::vector<int64_t> shape, const std::vector<int64_t> &strides,
                       int64_t stride) {
  for (size_t d = 0; d < shape.size(); ++d)
    if (strides[d] == 0)
      shape[d] = 1;
  std::vector<int64_t> starts, index(shape.size());
  for (int64_t i = 0; i < product(shape); ++i, advance(index, shape))
    starts.push_back(offsetOf(index, strides) / stride);
  return integersOf(shape, starts);
}

/// `once[...]` along `axis` of what is indexed, as rows that stand `step` apart there, of `shape`.
static NodeValue placesOf(CompositionBuilder &b, NodeValue once, int64_t size, int64_t step,
                          const Tensor &starts, const std::vector<int64_t> &shape) {
  const Tensor sizes = integersOf({}, {size});
  NodeValue places = fromStart(b, once, sizes);
  if (step != 1)
    places = add(b, "Mul", {places, number(b, ElementType::i64, static_cast<double>(step))});
  if (starts.data.size() > 1)
    places = add(b, "Add", {places, b.constant(starts)});
  NodeValue rows = insideOf(b, once, sizes, places);
  return b.type(rows).shape == shape ? rows
                                     : add(b, "Expand", {rows, b.constant(Tensor::vector(shape))});
}

/// Of indices that are repeated for all elements behind the axis, as `index.unsqueeze(-1)
/// .expand_as(x)` makes them: they name whole rows, of which each is read once. Nothing where they
/// are others.
static std::optional<IndexedRows> rowsOfRepeated(CompositionBuilder &b, size_t axis,
                                                 const LyingTensor &data,
                                                 const LyingTensor &indices) {
  if (indices.value == b.input(1) || axis + 1 == data.shape.size() || product(indices.shape) == 0)
    return std::nullopt;
  for (size_t d = 0; d < data.shape.size(); ++d)
    if ((d != axis && indices.shape[d] != data.shape[d]) ||
        (d > axis && (indices.once[d] != 1 || data.once[d] != data.shape[d])))
      return std::nullopt;
  const auto end = static_cast<int64_t>(axis) + 1;
  IndexedRows rows{data.value,
                   {},
                   product(data.once, 0, axis + 1),
                   {data.shape.begin() + end, data.shape.end()}};
  const int64_t row = product(rows.inner);
  std::vector<int64_t> along(data.strides.begin(), data.strides.begin() + end);
  along[axis] = 0;
  const std::vector<int64_t> leading(indices.shape.begin(), indices.shape.begin() + end),
      once(indices.once.begin(), indices.once.begin() + end);
  rows.indices = placesOf(b, reshaped(b, wholeIndices(b, indices.value), once), data.shape[axis],
                          data.strides[axis] / row, startsOf(leading, along, row), leading);
  return rows;
}

IndexedRows rowsOfElements(CompositionBuilder &b, bool areRead) {
  const TensorType dataType = b.type(b.input(0)), indexType = b.type(b.input(1));
  int64_t axis = b.attributes().integer("axis", 0);
  axis = axis < 0 ? axis + dataType.rank() : axis;
  if (axis < 0 || axis >= dataType.rank() || indexType.rank() != dataType.rank())
    b.refuse("indices " + indexType.toString() + " along axis " + std::to_string(axis) +
             " do not fit data " + dataType.toString());
  const LyingTensor data = lying(b, b.input(0), areRead), indices = lying(b, b.input(1), true);
  // Rows as a whole, even if what they repeat has to be written out for that.
  for (const LyingTensor &from : {data, lying(b, b.input(0), false)})
    if (std::optional<IndexedRows> rows =
            rowsOfRepeated(b, static_cast<size_t>(axis), from, indices))
      return *rows;
  std::vector<int64_t> along = data.strides;
  along[axis] = 0;
  NodeValue once = reshaped(b, wholeIndices(b, indices.value), indices.once);
  return {data.value,
          placesOf(b, once, data.shape[axis], data.strides[axis], startsOf(indices.shape, along, 1),
                   indices.shape),
          product(data.once),
          {}};
}

} // namespace pdc
