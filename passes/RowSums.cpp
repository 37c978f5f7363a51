#include "passes/RowStep.h"

#include "compiler/operators/Rules.h"

#include <algorithm>
#include <limits>

/// Where rows of which data select some come together.

using namespace mlir;
using namespace pdc::ir;

namespace pdc {

/// A flag for each place along the rows' dimension.
NodeValue RowStep::flagsAlong(const RowSelection &rows) {
  NodeValue mask = wrap(rows.mask);
  if (b.type(mask).element != ElementType::boolean)
    mask = add(b, "Cast", {mask}, {{"to", onnxType(ElementType::boolean)}});
  if (rows.inner > 1)
    mask = add(
        b, "Expand",
        {reshaped(b, mask, {rows.count, 1}), b.constant(Tensor::vector({rows.count, rows.inner}))});
  return reshaped(b, mask, {rows.count * rows.inner});
}

/// Flags that stand along the rows' dimension of a value of that many dimensions.
NodeValue RowStep::column(const RowSelection &rows, int64_t rank) {
  std::vector<int64_t> shape(static_cast<size_t>(rank - rows.axis), 1);
  shape[0] = rows.count * rows.inner;
  return reshaped(b, flagsAlong(rows), shape);
}

NodeValue RowStep::allRows(int64_t count) {
  Tensor flags = Tensor::zeros({ElementType::boolean, {count}});
  std::ranges::fill(flags.data, 1);
  return b.constant(flags);
}

/// Those of rows that were joined before are those of their parts.
void RowStep::appendFlags(const RowSelection &rows, std::vector<NodeValue> &parts) {
  auto maker = rows.mask.getDefiningOp<NodeOp>();
  if (!all.joinedMasks.contains(rows.mask) || rows.inner != 1)
    return parts.push_back(flagsAlong(rows));
  for (Value part : maker.getOperands())
    parts.push_back(wrap(part));
}

/// Rows one after the other, with the flags of each: in one form, however they come together, by
/// which equal ones are known.
RowSelection RowStep::joined(const std::vector<NodeValue> &parts) {
  std::vector<NodeValue> merged;
  int64_t neighbours = 0; ///< at the end of `merged`, of which all count
  for (NodeValue part : parts) {
    const Tensor *known = b.known(part);
    if (known && neighbours > 0)
      merged.back() = allRows(neighbours + known->type.elementCount());
    else
      merged.push_back(part);
    neighbours = known ? neighbours + known->type.elementCount() : 0;
  }
  NodeValue mask = add(b, "Concat", merged, {{"axis", int64_t(0)}});
  all.joinedMasks.insert(unwrap(mask));
  return {unwrap(mask), b.type(mask).elementCount()};
}

/// Of a Concat along them. What no data select counts as selected.
RowSelection RowStep::joinedRows() {
  const int64_t axis = axisOf(0);
  std::vector<NodeValue> parts;
  for (size_t i = 0; i < node.getNumOperands(); ++i) {
    const RowSelection *mine = rowsOf(i);
    if (mine && mine->axis != axis)
      refuse("combines each with each of");
    if (mine)
      appendFlags(RowSelection(*mine), parts);
    else
      parts.push_back(allRows(view.input(i).shape[static_cast<size_t>(axis)]));
  }
  RowSelection result = joined(parts);
  result.axis = axis;
  return result;
}

/// The operand with another number in rows that are not selected.
NodeValue RowStep::maskedBy(const RowSelection &rows, Value value, double otherwise) {
  const TensorType type = toTensorType(value.getType());
  NodeValue result =
      add(b, "Where", {column(rows, type.rank()), wrap(value), number(b, type.element, otherwise)});
  all.selections.erase(unwrap(result));
  all.masked.insert(unwrap(result));
  return result;
}

NodeValue RowStep::maskedOperand(size_t operand, double otherwise) {
  return maskedBy(RowSelection(*rowsOf(operand)), node.getOperand(operand), otherwise);
}

/// As f32.
NodeValue RowStep::countOf(const RowSelection &rows) {
  NodeValue ones =
      add(b, "Cast", {column(rows, rows.axis + 1)}, {{"to", onnxType(ElementType::f32)}});
  return add(b, "ReduceSum", {ones}, {{"keepdims", int64_t(0)}});
}

std::vector<NodeValue> RowStep::reduce() {
  const int64_t rank = rankOf(0);
  std::vector<int64_t> axes;
  if (view.hasInput(1))
    axes = axesFromStart(view, knownIntegers(view, 1), rank);
  if (axes.empty() && view.attributes.integer("noop_with_empty_axes", 0) != 0) {
    keep(rows());
    return {};
  }
  if (axes.empty())
    for (int64_t i = 0; i < rank; ++i)
      axes.push_back(i);
  RowSelection result = rows();
  if (std::ranges::count(axes, result.axis) > 0)
    return reduceRows(axes);
  if (view.attributes.integer("keepdims", 1) == 0)
    result.axis -= std::ranges::count_if(axes, [&](int64_t axis) { return axis < result.axis; });
  keep(result);
  return {};
}

static double lowest(ElementType element) {
  switch (element) {
  case ElementType::i64:
    return -0x1p62;
  case ElementType::i32:
    return -0x1p31;
  case ElementType::i8:
    return -128;
  case ElementType::u8:
  case ElementType::boolean:
    return 0;
  default:
    return -std::numeric_limits<double>::infinity();
  }
}

std::vector<NodeValue> RowStep::reduceRows(const std::vector<int64_t> &axes) {
  const TensorType &x = view.input(0);
  const RowSelection selected = rows();
  auto reduced = [&](std::string_view op, double otherwise) {
    std::vector<NodeValue> inputs = {maskedOperand(0, otherwise)};
    if (view.hasInput(1))
      inputs.push_back(b.input(1));
    return add(b, op, inputs, view.attributes);
  };
  if (view.op == "ReduceProd")
    return {reduced("ReduceProd", 1)};
  if (view.op == "ReduceMax")
    return {reduced("ReduceMax", lowest(x.element))};
  NodeValue sum = reduced("ReduceSum", 0);
  if (view.op == "ReduceSum")
    return {sum};
  double others = 1;
  for (int64_t axis : axes)
    if (axis != selected.axis)
      others *= static_cast<double>(x.shape[axis]);
  NodeValue count = add(b, "Mul", {countOf(selected), number(b, ElementType::f32, others)});
  if (x.element != ElementType::f32)
    count = add(b, "Cast", {count}, {{"to", onnxType(x.element)}});
  return {add(b, "Div", {sum, count})};
}

/// The shares of selected rows alone. The others have the first one's, so that they go on as
/// nothing that would not be computed otherwise.
std::vector<NodeValue> RowStep::softmaxOfRows() {
  const RowSelection selected = rows();
  NodeValue shares =
      add(b, "Softmax", {maskedOperand(0, lowest(view.input(0).element))}, view.attributes);
  NodeValue filled = filledRows(b, shares, column(selected, selected.axis + 1), selected.axis);
  all.selections[unwrap(filled)] = selected;
  return {filled};
}

/// The dimension of a product's result, counted from the last one, in which the rows of an operand
/// stand; 0 where products are summed along them.
int64_t RowStep::placeInProduct(size_t operand) const {
  const int64_t rank = rankOf(operand), place = rank - rowsOf(operand)->axis;
  if (operand == 2)
    return place;
  if (rank == 1)
    return 0;
  const bool isTurned =
      view.attributes.integer(operand == 0 ? "transA" : "transB", 0) != 0 && place <= 2;
  const int64_t shown = isTurned ? 3 - place : place;
  if (shown == (operand == 0 ? 1 : 2))
    return 0;
  // A vector as the other operand has no dimension in the result: columns move, or what is before
  // rows.
  const bool moves = view.op == "MatMul" && rankOf(1 - operand) == 1 && (operand == 0 || shown > 2);
  return moves ? shown - 1 : shown;
}

std::vector<NodeValue> RowStep::multiply() {
  std::optional<size_t> summed;
  std::optional<RowSelection> result;
  for (size_t i = 0; i < node.getNumOperands(); ++i) {
    if (!rowsOf(i))
      continue;
    checkSame(*rowsOf(i));
    const int64_t place = placeInProduct(i);
    if (place == 0) {
      summed = summed.value_or(i);
      continue;
    }
    RowSelection mine = *rowsOf(i);
    mine.axis = typeOfResult().rank() - place;
    if (result && result->axis != mine.axis)
      refuse("combines each with each of");
    result = mine;
  }
  if (summed && result)
    refuse("combines each with each of");
  if (result) {
    keep(*result);
    return {};
  }
  std::vector<NodeValue> inputs;
  for (size_t i = 0; i < node.getNumOperands(); ++i)
    inputs.push_back(i == *summed ? maskedOperand(i, 0) : b.input(i));
  return {add(b, view.op, inputs, view.attributes)};
}

/// Sums of updates by the rows that indices name, or the largest of them: those of rows that are
/// not selected add nothing, and are less than any other.
std::vector<NodeValue> RowStep::scatter() {
  enum : size_t { kIndices = 1, kUpdates = 2 };
  const int64_t axis = view.attributes.integer("axis", 0);
  RowSelection updated = rows();
  if (rowsOf(kIndices)) {
    updated.axis += axis;
    if (rowsOf(kUpdates) && rowsOf(kUpdates)->axis != updated.axis)
      refuse("combines each with each of");
    if (rowsOf(kUpdates))
      checkSame(*rowsOf(kUpdates));
  } else if (updated.axis < axis || updated.axis >= axis + rankOf(kIndices)) {
    refuse("puts into rows");
  }
  const double nothing = view.op == "ScatterMax" ? lowest(view.input(kUpdates).element) : 0;
  return {
      add(b, view.op,
          {b.input(0), b.input(kIndices), maskedBy(updated, node.getOperand(kUpdates), nothing)},
          view.attributes)};
}

NodeValue RowStep::asTheyWere(size_t operand) const {
  auto found = all.unfilled.find(node.getOperand(operand));
  return found == all.unfilled.end() ? b.input(operand) : wrap(found->second);
}

/// Losses of rows that are not selected are those of labels that are ignored.
std::vector<NodeValue> RowStep::ignoreLabels() {
  const size_t labels = view.op == "LossWeight" ? 0 : 1;
  if (!rowsOf(labels) || rowsOf(labels)->axis != 0 ||
      (labels == 1 && (!rowsOf(0) || rowsOf(0)->axis != 0)))
    refuse("compares with others");
  const RowSelection selected = *rowsOf(labels);
  checkSame(selected);
  Attributes attributes = view.attributes;
  if (view.op == "LossWeight" && !attributes.has("ignore_index"))
    refuse("has a loss without classes of");
  const int64_t ignored = attributes.integer("ignore_index", -1);
  attributes.set("ignore_index", ignored);
  // The logarithms of probabilities are rows too.
  const bool givesRows = view.op == "SoftmaxCrossEntropyLoss" && node.getNumResults() > 1 &&
                         !node.getResult(1).use_empty();
  std::vector<NodeValue> inputs;
  for (size_t i = 0; i < node.getNumOperands(); ++i)
    if (i == labels)
      inputs.push_back(maskedBy(selected, unwrap(asTheyWere(i)), static_cast<double>(ignored)));
    else
      inputs.push_back(givesRows ? b.input(i) : asTheyWere(i));
  std::vector<NodeValue> made = b.node(view.op, inputs, attributes, node.getNumResults());
  if (givesRows)
    all.selections[unwrap(made[1])] = selected;
  return made;
}

} // namespace pdc
