#include "passes/ScoreMasks.h"

#include "compiler/operators/AttentionShape.h"
#include "compiler/operators/Rules.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

using namespace mlir;
using namespace pdc;
using namespace pdc::ir;

namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

/// Nodes between a mask and what it is made of.
constexpr int kMostNodes = 24;

/// Whose rows are made of many elements, or are of some size.
bool isMixed(StringRef op) {
  return op == "MatMul" || op == "FusedMatMul" || op == "Gemm" || op == "LayerNormalization" ||
         op == "Softmax" || op == "Tanh" || op == "Sigmoid";
}

bool movesOrSums(NodeOp node) {
  const StringRef op = node.getOp();
  return isViewNode(node) || op == "Transpose" || op == "Gather" || op == "GatherElements" ||
         op == "Slice" || op == "Expand" || op == "Concat" || op == "Pad" || op == "Add" ||
         op == "Sub" || op == "Mul" || op == "Div";
}

bool isTrained(WeightVersionOp read) {
  auto memory = SymbolTable::lookupNearestSymbolFrom<MemoryOp>(read, read.getMemoryAttr());
  return memory && memory.getRole() == Role::Weight;
}

bool hasLarge(Value constant) {
  const std::optional<pdc::Tensor> elements = constantOf(constant);
  return !elements || llvm::any_of(elements->data, [](double element) {
    return !(std::abs(element) < std::abs(kHidden));
  });
}

bool mayBeLow(Value value, int depth) {
  if (auto read = value.getDefiningOp<WeightVersionOp>())
    return !isTrained(read);
  auto node = value.getDefiningOp<NodeOp>();
  if (!node || depth == kMostNodes)
    return true;
  if (isConstant(node))
    return hasLarge(value);
  if (isMixed(node.getOp()))
    return false;
  return !movesOrSums(node) || llvm::any_of(node.getOperands(), [&](Value operand) {
    return isa<FloatType>(getElementTypeOrSelf(operand)) && mayBeLow(operand, depth + 1);
  });
}

} // namespace

namespace pdc {

bool ScoreMask::isFlags() const { return getElementTypeOrSelf(value).isInteger(1); }

bool ScoreMask::mayHide() const { return isFlags() || mayBeLow(value, 0); }

Value JoinedMasks::add(StringRef op, StringRef suffix, ValueRange operands,
                       const Attributes &attributes) {
  OpBuilder builder(root);
  return createNode(builder, root.getLoc(), op, names.unique((root.getName() + suffix).str()),
                    operands, attributes)
      ->getResult(0);
}

Value JoinedMasks::number(StringRef suffix, Value like, double value) {
  const ElementType element = toTensorType(like.getType()).element;
  return add("Constant", suffix, {}, {{"value", pdc::Tensor::scalar(element, value)}});
}

Value JoinedMasks::cast(Value value, ElementType element) {
  return add("Cast", "/sees", {value}, {{"to", onnxType(element)}});
}

Value JoinedMasks::of(const ScoreMask &mask) {
  Value value = heads.broadcast(root, "/mask", mask.value, mask.scores, inTurn, names);
  if (mask.isFlags())
    return mask.isInverted ? add("Not", "/seen", {value}) : value;
  return mask.factor == 1 ? value
                          : add("Mul", "/mask", {value, number("/factor", value, mask.factor)});
}

bool JoinedMasks::takeTurnsAlike(ArrayRef<ScoreMask> masks) const {
  std::set<int64_t> counts;
  for (const ScoreMask &mask : masks)
    if (auto form = heads.form(shapeOf(mask.value), mask.scores, true); form->viewed.size() == 4)
      counts.insert(form->viewed[0]);
  counts.erase(1);
  return counts.size() < 2;
}

Value JoinedMasks::joined(ArrayRef<ScoreMask> masks, bool areFlags) {
  Value all;
  for (const ScoreMask &mask : masks) {
    if (mask.isFlags() != areFlags)
      continue;
    Value next = of(mask);
    all = !all       ? next
          : areFlags ? add("And", "/seen", {all, next})
                     : add("Add", "/mask", {all, next});
  }
  return all;
}

Value JoinedMasks::hidden(Value seen, Value numbers) {
  if (!seen || !numbers)
    return seen ? seen : numbers;
  return add("Where", "/mask", {seen, numbers, number("/never", numbers, kNever)});
}

Value JoinedMasks::join(ArrayRef<ScoreMask> masks) {
  inTurn = takeTurnsAlike(masks);
  Value seen = joined(masks, true);
  return hidden(seen, joined(masks, false));
}

std::pair<Value, Value> JoinedMasks::joinSharingEqually(ArrayRef<ScoreMask> masks, Value queries) {
  Value seen = of(masks.front());
  Value numbers = joined(masks.drop_front(), false);
  Value axis = add("Constant", "/axis", {}, {{"value", pdc::Tensor::vector({-1})}});
  Value most = add("ReduceMax", "/sees", {cast(seen, ElementType::f32), axis});
  Value sees = cast(most, ElementType::boolean);
  Value open = add("Or", "/open", {seen, add("Not", "/unseen", {sees})});
  if (numbers)
    numbers = add("Where", "/mask", {sees, numbers, number("/zero", numbers, 0)});
  return {hidden(open, numbers), zeroed(queries, sees)};
}

Value JoinedMasks::zeroed(Value queries, Value sees) {
  std::vector<int64_t> shape(4 - shapeOf(sees).size(), 1);
  llvm::append_range(shape, shapeOf(sees));
  OpBuilder builder(root);
  sees = inShape(builder, root, "/sees", sees, shape, names);
  if (!llvm::is_sorted(order))
    sees = add("Transpose", "/sees", {sees}, {{"perm", order.vec()}});
  return add("Where", "/queries", {sees, queries, number("/zero", queries, 0)});
}

} // namespace pdc
