#include "passes/RowStep.h"

#include "compiler/operators/Rules.h"

#include <algorithm>

using namespace mlir;
using namespace pdc::ir;

namespace pdc {

std::vector<NodeValue> RowStep::run() {
  // Where rows were brought together as they should be.
  if (llvm::any_of(node.getOperands(), [&](Value v) { return all.masked.contains(v); }))
    return {};
  if (llvm::any_of(node.getOperands(), [&](Value v) { return all.counts.contains(v); }))
    return followCounts();
  const std::string_view op = view.op;
  if (op == "Shape" || op == "Size")
    return countRows();
  if (op == "CastLike" && !rowsOf(0))
    return {}; // of the other operand it takes the type alone
  if (op == "ReduceSum" || op == "ReduceMean" || op == "ReduceMax" || op == "ReduceProd")
    return reduce();
  if (op == "MatMul" || op == "Gemm")
    return multiply();
  if (op == "GatherGrad" || op == "ScatterMax")
    return scatter();
  if (op == "SoftmaxCrossEntropyLoss" || op == "NegativeLogLikelihoodLoss" || op == "LossWeight" ||
      op == "CorrectPredictions")
    return ignoreLabels();
  if (op == "Softmax" && axisOf(-1) == rows().axis)
    return softmaxOfRows();
  const bool isJoined = op == "Concat" && axisOf(0) == rows().axis;
  keep(isJoined ? joinedRows() : axisOfResults());
  return {};
}

const RowSelection *RowStep::rowsOf(size_t operand) const {
  if (operand >= node.getNumOperands())
    return nullptr;
  auto found = all.selections.find(node.getOperand(operand));
  return found == all.selections.end() ? nullptr : &found->second;
}

const RowSelection &RowStep::rows() const {
  for (size_t i = 0; i < node.getNumOperands(); ++i)
    if (const RowSelection *found = rowsOf(i))
      return *found;
  throw Error("node '" + std::string(view.name) + "' reads no selected rows");
}

void RowStep::checkSame(const RowSelection &other) const {
  if (!haveSameMask(rows(), other))
    refuse("brings together, by two masks,");
}

/// By value: results are put where operands are found.
void RowStep::keep(const RowSelection &rows) {
  const RowSelection kept = rows;
  for (Value result : node.getResults())
    all.selections[result] = kept;
}

int64_t RowStep::axisOf(int64_t otherwise) const {
  return axisFromStart(view, view.attributes.integer("axis", otherwise), rankOf(0));
}

RowSelection RowStep::axisOfResults() const {
  const std::string_view op = view.op;
  static constexpr std::string_view batched[] = {
      "Conv", "MaxPool", "AveragePool", "GlobalAveragePool", "GroupNormalization", "LRN"};
  if (facts.rules().kind == OperatorClass::elementwise || op == "Expand" || op == "Dropout")
    return aligned();
  if (facts.rules().kind == OperatorClass::view)
    return reshapedRows();
  if (op == "Transpose")
    return transposedRows();
  if (op == "Gather")
    return gatheredRows();
  // Of all but Concat the first operand is what is looked at by rows.
  for (size_t i = 1; op != "Concat" && i < node.getNumOperands(); ++i)
    if (rowsOf(i))
      refuse("takes as parameters");
  if (std::ranges::count(batched, op) > 0 && rows().axis == 0)
    return rows();
  return besideAxes();
}

/// Dimensions are counted from the last one.
RowSelection RowStep::aligned() const {
  std::optional<RowSelection> found;
  for (size_t i = 0; i < node.getNumOperands(); ++i) {
    const RowSelection *mine = rowsOf(i);
    if (!mine)
      continue;
    RowSelection result = *mine;
    result.axis += typeOfResult().rank() - rankOf(i);
    if (found && found->axis != result.axis)
      refuse("combines each with each of");
    checkSame(result);
    found = result;
  }
  if (typeOfResult().shape[found->axis] != found->count * found->inner)
    refuse("repeats");
  return *found;
}

/// Neighbours that are put to a row, or taken apart from it, are whole ones.
RowSelection RowStep::reshapedRows() const {
  RowSelection result = rows();
  const std::vector<int64_t> before = view.input(0).shape, after = typeOfResult().shape;
  const int64_t leading = product(before, 0, static_cast<size_t>(result.axis)),
                behind = product(before, static_cast<size_t>(result.axis) + 1);
  for (size_t i = 0; i < after.size(); ++i) {
    const int64_t inner = after[i] / result.count;
    const bool isWhole = after[i] == inner * result.count && inner > 0 &&
                         (inner % result.inner == 0 || result.inner % inner == 0) &&
                         inner <= result.inner * behind;
    if (product(after, 0, i) != leading || !isWhole)
      continue;
    // A number that the network writes is another one than that of its rows.
    if (view.op == "Reshape" && !isPart && !countIn(1) && knownIntegers(view, 1).at(i) > 0)
      break;
    result.axis = static_cast<int64_t>(i);
    result.inner = inner;
    return result;
  }
  refuse("changes the shape of");
}

RowSelection RowStep::transposedRows() const {
  RowSelection result = rows();
  const std::vector<int64_t> order = permutationOf(view);
  result.axis = std::ranges::find(order, result.axis) - order.begin();
  return result;
}

RowSelection RowStep::gatheredRows() const {
  const int64_t axis = axisOf(0);
  const RowSelection *data = rowsOf(0), *indices = rowsOf(1);
  if ((data && indices) || (data && data->axis == axis))
    refuse("takes some by their places of");
  RowSelection result = rows();
  if (indices)
    result.axis += axis;
  else if (data->axis > axis)
    result.axis += rankOf(1) - 1;
  return result;
}

/// Nodes that work along other dimensions than the rows'.
RowSelection RowStep::besideAxes() const {
  for (size_t i = 0; i < node.getNumOperands(); ++i)
    if (const RowSelection *mine = rowsOf(i)) {
      checkSame(*mine);
      checkAxis(*mine);
    }
  RowSelection result = rows();
  const bool isDropped = view.op == "ArgMax" && view.attributes.integer("keepdims", 1) == 0;
  if (isDropped && axisOf(0) < result.axis)
    --result.axis;
  return result;
}

void RowStep::checkAxis(const RowSelection &mine) const {
  if (mine.axis != rows().axis)
    refuse("combines each with each of");
  const std::string_view op = view.op;
  bool isBeside = false;
  if (op == "LogSoftmax" || op == "Softmax")
    isBeside = axisOf(-1) != mine.axis;
  else if (op == "LayerNormalization" || op == "RMSNormalization")
    isBeside = rowsOf(0) && mine.axis < axisOf(-1);
  else if (op == "Split" || op == "Concat" || op == "ArgMax")
    isBeside = axisOf(0) != mine.axis;
  else if (op == "CumSum")
    isBeside = axisFromStart(view, knownIntegers(view, 1).at(0), rankOf(0)) != mine.axis;
  else if (op == "Slice" || op == "Pad")
    isBeside = typeOfResult().shape[mine.axis] == view.input(0).shape[mine.axis] &&
               takesInOrder(mine.axis);
  if (!isBeside)
    refuse("brings together, or takes by their places,");
}

/// A Slice that is as long as what it reads may still turn it around, and padding may cut off as
/// much as it adds.
bool RowStep::takesInOrder(int64_t axis) const {
  if (view.op == "Pad")
    return std::ranges::all_of(knownIntegers(view, 1), [](int64_t n) { return n >= 0; });
  if (!view.hasInput(4))
    return true;
  const std::vector<int64_t> steps = knownIntegers(view, 4);
  std::vector<int64_t> axes;
  if (view.hasInput(3))
    axes = axesFromStart(view, knownIntegers(view, 3), rankOf(0));
  for (size_t i = 0; i < steps.size(); ++i)
    if ((axes.empty() ? static_cast<int64_t>(i) : axes[i]) == axis && steps[i] < 0)
      return false;
  return true;
}

} // namespace pdc
