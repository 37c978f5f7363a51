#include "passes/JoinedMasks.h"

#include "compiler/operators/Rules.h"

#include <limits>
#include <set>

using namespace mlir;
using namespace pdc;
using namespace pdc::ir;

namespace pdc {

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

Value JoinedMasks::viewed(StringRef suffix, Value value, const std::vector<int64_t> &shape) {
  OpBuilder builder(root);
  return inShape(builder, root, suffix, value, shape, names);
}

Value JoinedMasks::of(const ScoreMask &mask, bool inTurn) {
  Value value = heads.broadcast(root, "/mask", mask.value, mask.scoresShape, inTurn, names);
  if (mask.isFlags())
    return mask.isInverted ? add("Not", "/seen", {value}) : value;
  return mask.factor == 1 ? value
                          : add("Mul", "/mask", {value, number("/factor", value, mask.factor)});
}

/// Shares that are equal are told of by queries, too, of which each sample has its own.
int64_t JoinedMasks::turnsOf(const AttentionMasks &masks) const {
  std::set<int64_t> counts;
  for (const ScoreMask &mask : masks.joined)
    counts.insert(inFour(heads.form(shapeOf(mask.value), mask.scoresShape, true)->viewed)[kBatch]);
  counts.erase(1);
  const bool areAlike = counts.size() == 1 && !masks.sharing && *counts.begin() != heads.batch;
  return areAlike ? *counts.begin() : 0;
}

Value JoinedMasks::joined(const AttentionMasks &masks, bool areFlags, bool inTurn) {
  Value all;
  for (const ScoreMask &mask : masks.joined) {
    if (mask.isFlags() != areFlags)
      continue;
    Value next = of(mask, inTurn);
    all = !all       ? next
          : areFlags ? add("And", "/seen", {all, next})
                     : add("Add", "/mask", {all, next});
  }
  return all;
}

Value JoinedMasks::hidden(Value seen, Value numbers) {
  if (!seen || !numbers)
    return seen ? seen : numbers;
  constexpr double never = -std::numeric_limits<double>::infinity();
  return add("Where", "/mask", {seen, numbers, number("/never", numbers, never)});
}

JoinedMasks::Told JoinedMasks::join(const AttentionMasks &masks, Value queries) {
  const int64_t turns = turnsOf(masks);
  if (!masks.sharing) {
    Value seen = joined(masks, true, turns != 0);
    return {queries, hidden(seen, joined(masks, false, turns != 0)), turns};
  }
  Value seen = of(*masks.sharing, false);
  Value numbers = joined(masks, false, false);
  Value axis = add("Constant", "/axis", {}, {{"value", pdc::Tensor::vector({-1})}});
  Value most = add("ReduceMax", "/sees", {cast(seen, ElementType::f32), axis});
  Value sees = cast(most, ElementType::boolean);
  Value open = add("Or", "/open", {seen, add("Not", "/unseen", {sees})});
  if (numbers)
    numbers = add("Where", "/mask", {sees, numbers, number("/zero", numbers, 0)});
  Value mask = hidden(open, numbers);
  sees = viewed("/sees", sees, inFour(shapeOf(sees)));
  if (!llvm::is_sorted(order))
    sees = add("Transpose", "/sees", {sees}, {{"perm", order.vec()}});
  return {add("Where", "/queries", {sees, queries, number("/zero", queries, 0)}), mask, 0};
}

Value JoinedMasks::scaled(const ScoreTemperature &temperature, Value queries) {
  Value factor = heads.broadcast(root, "/temperature", temperature.value, temperature.scoresShape,
                                 false, names);
  const std::vector<int64_t> shape = inOrder(inFour(shapeOf(factor)), order);
  return add(temperature.divides ? "Div" : "Mul", "/scaled",
             {queries, viewed("/temperature", factor, shape)});
}

} // namespace pdc
