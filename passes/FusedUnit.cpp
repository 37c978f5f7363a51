#include "passes/FusedUnit.h"
#include "passes/Nodes.h"
#include "passes/Values.h"

#include "compiler/ir/Conversion.h"

#include <utility>

using namespace mlir;
using namespace pdc::ir;

namespace pdc {

bool canWaitUntil(UnitOp unit, Operation *place) {
  return llvm::all_of(unit.getOperands(), [&](Value operand) {
    Operation *made = behindViews(operand).getDefiningOp();
    return !isRead(made) || !isStoredBetween(memoryOf(made), unit, place);
  });
}

/// What both cost together; null where neither says.
static FloatAttr costOfBoth(Builder &builder, std::optional<APFloat> a, std::optional<APFloat> b) {
  auto numberOf = [](std::optional<APFloat> cost) { return cost ? cost->convertToDouble() : 0; };
  return a || b ? builder.getF64FloatAttr(numberOf(a) + numberOf(b)) : FloatAttr();
}

FusedUnit::FusedUnit(UnitOp first, UnitOp second, Operation *place, ArrayRef<Value> operands,
                     TypeRange results)
    : builder(place) {
  builder.setInsertionPointAfter(place);
  const std::string name = (first.getName() + "+" + second.getName()).str();
  const bool isForward = second.getPhase() == ir::Phase::Forward;
  unit = createUnit(
      builder, builder.getFusedLoc({first.getLoc(), second.getLoc()}), name,
      {isForward ? StringRef(name) : second.getOrigin(), second.getPhase(), second.getRate()},
      results, operands);
  Block &body = unit.getBody().front();
  for (Value operand : operands)
    known.map(operand, body.addArgument(operand.getType(), operand.getLoc()));
  builder.setInsertionPointToEnd(&body);
  if (FloatAttr flops = costOfBoth(builder, first.getFlops(), second.getFlops()))
    unit.setFlopsAttr(flops);
  if (FloatAttr bytes = costOfBoth(builder, first.getBytes(), second.getBytes()))
    unit.setBytesAttr(bytes);
  if (FloatAttr seconds = costOfBoth(builder, first.getSeconds(), second.getSeconds()))
    unit.setSecondsAttr(seconds);
  if (auto stage = second.getStageAttr())
    unit.setStageAttr(stage);
}

SmallVector<Value> FusedUnit::take(UnitOp part) {
  IRMapping inside;
  for (auto [argument, operand] : llvm::zip(part.getBody().getArguments(), part.getOperands()))
    inside.map(argument, known.lookup(operand));
  for (Operation &op : part.getBody().front().without_terminator())
    builder.clone(op, inside);
  SmallVector<Value> made;
  for (auto [result, yielded] :
       llvm::zip(part.getResults(), part.getBody().front().getTerminator()->getOperands())) {
    made.push_back(inside.lookup(yielded));
    known.map(result, made.back());
  }
  return made;
}

UnitOp fuseWithReader(UnitOp first, ArrayRef<UnitOp> views, UnitOp reader, Operation *place,
                      ArrayRef<Value> operands, bool isKept) {
  SmallVector<Type> types(reader.getResultTypes());
  if (isKept)
    types.insert(types.begin(), first.getResult(0).getType());
  FusedUnit fused(first, reader, place, operands, types);
  SmallVector<Value> yielded = fused.take(first);
  for (UnitOp view : views)
    fused.take(view);
  yielded.append(fused.take(reader));
  UnitOp unit = fused.finish(ArrayRef(yielded).drop_front(isKept ? 0 : 1));
  reader->replaceAllUsesWith(unit.getResults().take_back(reader.getNumResults()));
  reader.erase();
  if (isKept)
    first.getResult(0).replaceAllUsesWith(unit.getResult(0));
  return unit;
}

KernelChoice choiceOf(UnitOp unit) {
  KernelChoice choice;
  choice.kernel = unit.getKernel()->getName().str();
  choice.fields = toAttributes(unit.getKernel()->getFields());
  choice.accumulates = unit.getKernel()->getAccumulates();
  choice.addsToLast = unit.getKernel()->getAddsToLast();
  choice.outputLayouts.assign(unit.getNumResults(), "");
  return choice;
}

AccumulateOp sumOf(UnitOp unit) {
  if (unit.getNumResults() != 1 || !unit.getResult(0).hasOneUse())
    return {};
  return dyn_cast<AccumulateOp>(*unit.getResult(0).user_begin());
}

void replaceSummed(UnitOp fused, ArrayRef<UnitOp> parts) {
  Operation *last = fused;
  for (auto [part, result] : llvm::zip_equal(parts, fused.getResults())) {
    Operation *accumulate = sumOf(part);
    accumulate->moveAfter(std::exchange(last, accumulate));
    UnitOp replaced = part;
    replaced.getResult(0).replaceAllUsesWith(result);
    replaced.erase();
  }
}

UnitOp FusedUnit::finish(ValueRange yielded) {
  builder.create<YieldOp>(unit.getLoc(), yielded);
  return unit;
}

} // namespace pdc
