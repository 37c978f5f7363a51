#include "passes/RowStep.h"

#include "compiler/operators/Rules.h"

#include <algorithm>

using namespace mlir;
using namespace pdc::ir;

namespace pdc {

/// Nodes that compute the same of the same, as far as so many comparisons tell.
static bool areSame(Value a, Value b, int &left) {
  if (a == b)
    return true;
  if (--left <= 0)
    return false;
  if (auto read = a.getDefiningOp<ReadOp>()) {
    auto other = b.getDefiningOp<ReadOp>();
    return other && read.getMemory() == other.getMemory();
  }
  auto one = a.getDefiningOp<NodeOp>(), other = b.getDefiningOp<NodeOp>();
  if (!one || !other || one.getOp() != other.getOp() ||
      one.getOnnxAttributes() != other.getOnnxAttributes() ||
      one->getResultTypes() != other->getResultTypes() ||
      one.getNumOperands() != other.getNumOperands() ||
      cast<OpResult>(a).getResultNumber() != cast<OpResult>(b).getResultNumber())
    return false;
  return llvm::all_of(llvm::zip(one.getOperands(), other.getOperands()), [&](auto pair) {
    auto [x, y] = pair;
    return isa<NoneType>(x.getType()) ? isa<NoneType>(y.getType()) : areSame(x, y, left);
  });
}

static bool areSame(Value a, Value b) {
  int left = 4096;
  return areSame(a, b, left);
}

bool haveSameMask(const RowSelection &a, const RowSelection &b) {
  return a.count == b.count && a.inner == b.inner && areSame(a.mask, b.mask);
}

void refuseRows(NodeOp node, const RowSelection &rows, const std::string &what) {
  NodeOp mask = rows.mask.getDefiningOp<NodeOp>();
  throw Error(
      "node '" + node.getName().str() + "' (" + node.getOp().str() + ") " + what +
      " rows of which data select some" + (mask ? " (by '" + mask.getName().str() + "')" : "") +
      ", and how many is not known when it is compiled; expected are nodes that compute each "
      "row for itself, and sums, means, largest values and losses of all of them");
}

/// Composed operators whose parts say themselves what becomes of each row.
static bool hasFollowedParts(const Operator &op) {
  static constexpr std::string_view names[] = {"ArgMax",
                                               "ArgMin",
                                               "Bernoulli",
                                               "CastLike",
                                               "DepthToSpace",
                                               "Einsum",
                                               "GatherND",
                                               "GlobalLpPool",
                                               "GlobalMaxPool",
                                               "GroupNormalization",
                                               "Hardmax",
                                               "InstanceNormalization",
                                               "LpNormalization",
                                               "MatMul",
                                               "Mean",
                                               "MeanVarianceNormalization",
                                               "NegativeLogLikelihoodLoss",
                                               "OneHot",
                                               "OneSidedClip",
                                               "ReduceL1",
                                               "ReduceL2",
                                               "ReduceLogSum",
                                               "ReduceLogSumExp",
                                               "ReduceMax",
                                               "ReduceMean",
                                               "ReduceMin",
                                               "ReduceSum",
                                               "ReduceSumSquare",
                                               "ScatterElements",
                                               "ScatterND",
                                               "Shrink",
                                               "SoftmaxCrossEntropyLoss",
                                               "SpaceToDepth",
                                               "SwiGLU",
                                               "Swish"};
  return op.kind == OperatorClass::elementwise || std::ranges::count(names, op.name) > 0;
}

/// Composed operators that go by positions along one axis.
static bool isAlongAxis(llvm::StringRef op) { return op == "GatherElements" || op == "TopK"; }

static bool isSelection(llvm::StringRef op) {
  return op == "pdc.SelectedRows" || op == "pdc.SelectedPlaces";
}

bool SelectedRows::concern(NodeOp node) const {
  return llvm::any_of(node.getOperands(), [&](Value operand) {
    return selections.contains(operand) || counts.contains(operand);
  });
}

bool SelectedRows::hidesParts(NodeOp node) const {
  return isSelection(node.getOp()) || (isAlongAxis(node.getOp()) && concern(node));
}

/// Whether each element is repeated for others that are its neighbours.
static bool repeatsNeighbours(NodeOp expand) {
  const std::vector<int64_t> before = toTensorType(expand.getOperand(0).getType()).shape,
                             after = toTensorType(expand.getResult(0).getType()).shape;
  if (before.size() != after.size())
    return false;
  size_t kept = 0;
  while (kept < before.size() && before[kept] == after[kept])
    ++kept;
  return std::all_of(before.begin() + static_cast<int64_t>(kept), before.end(),
                     [](int64_t size) { return size == 1; });
}

/// Under views and repetitions that do not change which rows a mask selects.
static Value withoutViews(Value mask) {
  auto node = mask.getDefiningOp<NodeOp>();
  while (node && (isViewNode(node) || (node.getOp() == "Expand" && repeatsNeighbours(node)))) {
    mask = node.getOperand(0);
    node = mask.getDefiningOp<NodeOp>();
  }
  return mask;
}

std::vector<NodeValue> SelectedRows::prepare(NodeOp node, CompositionBuilder &b) {
  const bool isScatter = node.getOp() == "pdc.MaskedScatter" && concern(node);
  const RowSelection rows = isScatter ? selections.lookup(node.getOperand(2)) : RowSelection();
  if (!rows.mask || rows.axis != 0 || selections.contains(node.getOperand(0)) ||
      !areSame(withoutViews(rows.mask), withoutViews(node.getOperand(1))) ||
      b.type(b.input(0)).elementCount() != b.type(b.input(2)).elementCount())
    return {};
  // Each row goes back to where it was selected.
  const std::vector<int64_t> shape = b.type(b.input(0)).shape;
  std::vector<int64_t> flags = toTensorType(node.getOperand(1).getType()).shape;
  flags.resize(shape.size(), 1);
  return {add(b, "Where",
              {reshaped(b, b.input(1), flags), reshaped(b, b.input(2), shape), b.input(0)})};
}

void SelectedRows::begin(NodeOp composed, ValueRange values) {
  if (isSelection(composed.getOp())) {
    for (Value operand : composed.getOperands())
      if (auto found = selections.find(operand); found != selections.end())
        refuseRows(composed, found->second, "selects once more of");
    const bool isOfPlaces = composed.getOp() == "pdc.SelectedPlaces";
    Value mask = composed.getOperand(isOfPlaces ? 0 : 1);
    if (isConstant(mask.getDefiningOp()))
      return; // nothing but what is selected
    selections[values[0]] = {mask, toTensorType(mask.getType()).elementCount(), isOfPlaces, 1};
    if (auto filled = values[0].getDefiningOp<NodeOp>(); filled && filled.getOp() == "Where")
      unfilled[values[0]] = filled.getOperand(1);
    return;
  }
  if (!concern(composed))
    return;
  if (composed.getOp() == "CastLike")
    return; // a Cast, which knows numbers of rows
  refuseParameters(composed);
  if (isAlongAxis(composed.getOp()))
    return beginAlongRows(composed, values);
  // Numbers are drawn for each row.
  if (composed.getOp() == "RandomNormalLike" || composed.getOp() == "RandomUniformLike") {
    const RowSelection rows = selections.lookup(composed.getOperand(0));
    selections[values[0]] = rows;
    return;
  }
  if (hasFollowedParts(*findOperator(composed.getOp())))
    return;
  for (Value operand : composed.getOperands())
    if (auto found = selections.find(operand); found != selections.end())
      refuseRows(composed, found->second, "does not compute for itself each of");
}

/// Along another dimension each row is computed for itself.
void SelectedRows::beginAlongRows(NodeOp composed, ValueRange values) {
  const NodeFacts facts(composed);
  const bool hasIndices = composed.getOp() == "GatherElements";
  const int64_t axis =
      axisFromStart(facts.view(), facts.view().attributes.integer("axis", hasIndices ? 0 : -1),
                    facts.view().input(0).rank());
  const RowSelection data = selections.lookup(composed.getOperand(0)),
                     indices = hasIndices ? selections.lookup(composed.getOperand(1)) : data;
  if (!data.mask || !indices.mask || data.axis != indices.axis || axis == data.axis ||
      !haveSameMask(data, indices))
    refuseRows(composed, data.mask ? data : indices, "takes some by their places of");
  for (Value value : values)
    selections[value] = data;
}

void SelectedRows::refuseParameters(NodeOp composed) const {
  for (Value operand : composed.getOperands())
    if (auto number = counts.find(operand); number != counts.end())
      refuseRows(composed, number->second.rows, "computes with the number of");
}

std::vector<NodeValue> SelectedRows::follow(const NodeFacts &facts, NodeOp node,
                                            CompositionBuilder &builder, bool isPart) {
  return RowStep(*this, facts, node, builder, isPart).run();
}

void SelectedRows::keepInside(Operation *op) const {
  for (Value operand : op->getOperands())
    if (auto found = selections.find(operand); found != selections.end())
      refuseRows(operand.getDefiningOp<NodeOp>(), found->second, "makes an output of");
}

void SelectedRows::move(Value from, Value to) {
  if (auto found = counts.find(from); found != counts.end()) {
    RowCount count = std::move(found->second);
    counts.erase(found);
    counts[to] = std::move(count);
  }
  if (auto found = selections.find(from); found != selections.end()) {
    const RowSelection rows = found->second;
    selections.erase(found);
    selections[to] = rows;
  }
}

} // namespace pdc
