#include "passes/FusedUnit.h"
#include "passes/Nodes.h"
#include "passes/Passes.h"
#include "passes/Refusal.h"
#include "passes/Values.h"

#include "compiler/ir/Conversion.h"

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
  const size_t kept = first.getNumResults() - (isKept ? 0 : 1);
  SmallVector<Type> types(first->getResults().take_front(kept).getTypes());
  llvm::append_range(types, reader.getResultTypes());
  FusedUnit fused(first, reader, place, operands, types);
  SmallVector<Value> yielded = fused.take(first);
  yielded.truncate(kept);
  for (UnitOp view : views)
    fused.take(view);
  yielded.append(fused.take(reader));
  UnitOp unit = fused.finish(yielded);
  reader->replaceAllUsesWith(unit.getResults().take_back(reader.getNumResults()));
  reader.erase();
  for (size_t i = 0; i < kept; ++i)
    first.getResult(i).replaceAllUsesWith(unit.getResult(i));
  return unit;
}

UnitOp fuseBeside(UnitOp first, UnitOp second, Operation *place, ArrayRef<Value> operands) {
  SmallVector<Type> types(first.getResultTypes());
  llvm::append_range(types, second.getResultTypes());
  FusedUnit fused(first, second, place, operands, types);
  SmallVector<Value> yielded = fused.take(first);
  yielded.append(fused.take(second));
  return fused.finish(yielded);
}

void replace(UnitOp first, UnitOp second, UnitOp fused) {
  first->replaceAllUsesWith(fused.getResults().take_front(first.getNumResults()));
  second->replaceAllUsesWith(fused.getResults().take_back(second.getNumResults()));
  first.erase();
  second.erase();
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

void replaceSummed(UnitOp first, UnitOp second, UnitOp fused) {
  AccumulateOp sum = sumOf(first);
  sumOf(second)->moveAfter(fused);
  sum->moveAfter(fused);
  replace(first, second, fused);
}

UnitOp FusedUnit::finish(ValueRange yielded) {
  builder.create<YieldOp>(unit.getLoc(), yielded);
  return unit;
}

LogicalResult fuseInStages(ModuleOp module, llvm::function_ref<void(StageOp)> fuse) {
  if (module->hasAttr(kMeasuresUnitsAttribute))
    return success();
  return runChecked(module, [&] {
    module.walk(fuse);
    return success();
  });
}

} // namespace pdc
