#include "compiler/operators/Composition.h"
#include "compiler/operators/Rules.h"

#include <algorithm>
#include <numeric>

/// Reductions and products of integers: kernels reduce floating point, which does not hold every
/// integer. Loops over elements do, so that halves of what is reduced are combined until one
/// element is left.
namespace pdc {

namespace {

NodeValue integerVector(CompositionBuilder &b, const std::vector<int64_t> &values) {
  Tensor tensor{{ElementType::i64, {static_cast<int64_t>(values.size())}}, {}};
  tensor.data.assign(values.begin(), values.end());
  return b.constant(std::move(tensor));
}

/// Rows of the last dimension from one index to another.
NodeValue columnsOf(CompositionBuilder &b, NodeValue x, int64_t from, int64_t to) {
  return add(b, "Slice",
             {x, integerVector(b, {from}), integerVector(b, {to}), integerVector(b, {1})});
}

/// x: [rows, n] -> [rows, 1].
NodeValue halved(CompositionBuilder &b, std::string_view op, NodeValue x) {
  for (int64_t n = b.type(x).shape[1]; n > 1; n = b.type(x).shape[1]) {
    const int64_t half = n / 2;
    NodeValue pairs = add(b, op, {columnsOf(b, x, 0, half), columnsOf(b, x, half, 2 * half)});
    x = n % 2 == 0 ? pairs
                   : add(b, "Concat", {pairs, columnsOf(b, x, n - 1, n)}, {{"axis", int64_t(1)}});
  }
  return x;
}

/// [rows, n]: in each row the elements that are reduced to one.
NodeValue reducedRows(CompositionBuilder &b, NodeValue x, const std::vector<bool> &reduced) {
  const std::vector<int64_t> shape = b.type(x).shape;
  std::vector<int64_t> order(shape.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_partition(order, [&](int64_t d) { return !reduced[d]; });
  int64_t rows = 1, n = 1;
  for (size_t d = 0; d < shape.size(); ++d)
    (reduced[d] ? n : rows) *= shape[d];
  return reshaped(b, std::ranges::is_sorted(order) ? x : transposed(b, x, order), {rows, n});
}

std::vector<int64_t> reducedShape(CompositionBuilder &b, const std::vector<bool> &reduced) {
  std::vector<int64_t> shape, from = b.type(b.input(0)).shape;
  for (size_t d = 0; d < from.size(); ++d)
    if (!reduced[d] || b.attributes().integer("keepdims", 1))
      shape.push_back(reduced[d] ? 1 : from[d]);
  return shape;
}

bool isWholeNumbers(const TensorType &type) {
  return (type.element == ElementType::i32 || type.element == ElementType::i64) &&
         type.elementCount() > 0;
}

size_t reducedAxis(CompositionBuilder &b, int64_t axis) {
  const int64_t rank = b.type(b.input(0)).rank();
  if (axis < -rank || axis >= rank)
    b.refuse("axis " + std::to_string(axis) + " of " + b.type(b.input(0)).toString());
  return static_cast<size_t>(axis < 0 ? axis + rank : axis);
}

std::vector<NodeValue> composeIntegerReduction(CompositionBuilder &b, std::string_view op) {
  const TensorType type = b.type(b.input(0));
  std::vector<int64_t> axes;
  if (b.inputCount() > 1 && b.input(1))
    axes = knownIntegers(b, 1);
  const bool isIdentity = axes.empty() && b.attributes().integer("noop_with_empty_axes", 0);
  if (!isWholeNumbers(type))
    return {};
  if (isIdentity)
    return {add(b, "Identity", {b.input(0)})};
  std::vector<bool> reduced(type.shape.size(), axes.empty());
  for (int64_t axis : axes)
    reduced[reducedAxis(b, axis)] = true;
  return {
      reshaped(b, halved(b, op, reducedRows(b, b.input(0), reduced)), reducedShape(b, reduced))};
}

std::vector<NodeValue> composeIntegerSum(CompositionBuilder &b) {
  return composeIntegerReduction(b, "Add");
}
std::vector<NodeValue> composeIntegerMax(CompositionBuilder &b) {
  return composeIntegerReduction(b, "Max");
}
std::vector<NodeValue> composeIntegerProduct(CompositionBuilder &b) {
  return composeIntegerReduction(b, "Mul");
}

/// The least, or the last, index of those where `op` (Max or Min) of all stands.
std::vector<NodeValue> composeIntegerPlaces(CompositionBuilder &b, std::string_view op) {
  const TensorType type = b.type(b.input(0));
  if (!isWholeNumbers(type))
    return {};
  std::vector<bool> reduced(type.shape.size(), false);
  reduced[reducedAxis(b, b.attributes().integer("axis", 0))] = true;
  const bool takesLast = b.attributes().integer("select_last_index", 0) != 0;
  NodeValue rows = reducedRows(b, b.input(0), reduced);
  const int64_t n = b.type(rows).shape[1];
  std::vector<int64_t> indices(static_cast<size_t>(n));
  std::iota(indices.begin(), indices.end(), 0);
  NodeValue isFound = add(b, "Equal", {rows, halved(b, op, rows)});
  NodeValue places = add(b, "Where",
                         {isFound, reshaped(b, integerVector(b, indices), {1, n}),
                          number(b, ElementType::i64, takesLast ? -1 : static_cast<double>(n))});
  return {reshaped(b, halved(b, takesLast ? "Max" : "Min", places), reducedShape(b, reduced))};
}

std::vector<NodeValue> composeIntegerArgMax(CompositionBuilder &b) {
  return composeIntegerPlaces(b, "Max");
}

/// [.., rows, n] with [.., n, columns]: all products, and their sums. What does not fit stays what
/// it is, and is refused as such: products would repeat a dimension of 1.
std::vector<NodeValue> composeIntegerMatMul(CompositionBuilder &b) {
  const TensorType left = b.type(b.input(0)), right = b.type(b.input(1));
  if (!isWholeNumbers(left) || left.rank() < 2 || right.rank() < 2 ||
      left.shape.back() != right.shape.end()[-2])
    return {};
  std::vector<int64_t> apart = left.shape, turned(right.shape.size());
  apart.insert(apart.end() - 1, 1);
  std::iota(turned.begin(), turned.end(), 0);
  std::swap(turned.end()[-1], turned.end()[-2]);
  NodeValue columns = transposed(b, b.input(1), turned);
  std::vector<int64_t> beside = b.type(columns).shape;
  beside.insert(beside.end() - 2, 1);
  NodeValue products =
      add(b, "Mul", {reshaped(b, b.input(0), apart), reshaped(b, columns, beside)});
  return {add(b, "ReduceSum", {products, integerVector(b, {-1})}, {{"keepdims", int64_t(0)}})};
}

} // namespace

std::vector<NodeValue> composeIntegerMin(CompositionBuilder &b) {
  return composeIntegerReduction(b, "Min");
}
std::vector<NodeValue> composeIntegerArgMin(CompositionBuilder &b) {
  return composeIntegerPlaces(b, "Min");
}

std::span<const ComposedForm> integerReductionForms() {
  static const ComposedForm forms[] = {{"ArgMax", composeIntegerArgMax},
                                       {"MatMul", composeIntegerMatMul},
                                       {"ReduceMax", composeIntegerMax},
                                       {"ReduceProd", composeIntegerProduct},
                                       {"ReduceSum", composeIntegerSum}};
  return forms;
}

} // namespace pdc
