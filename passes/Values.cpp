#include "passes/Values.h"

#include "compiler/devices/Device.h"
#include "compiler/ir/Conversion.h"
#include "compiler/operators/Operator.h"

using namespace mlir;
using namespace pdc::ir;

namespace pdc {

bool isView(Operation *op) {
  auto unit = dyn_cast_or_null<UnitOp>(op);
  return unit && !unit.getKernel() && unit.getNumOperands() > 0 && unit.getNumResults() == 1 &&
         !unit.getParts();
}

Value behindViews(Value value) {
  while (value && isView(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  return value;
}

Value operandBehind(UnitOp unit, Value read) {
  auto argument = dyn_cast<BlockArgument>(read);
  return argument ? unit.getOperand(argument.getArgNumber()) : Value();
}

bool isStack(UnitOp unit) {
  return llvm::all_of(unit.getBody().getOps<NodeOp>(),
                      [](NodeOp node) { return node.getOp() == "Concat"; });
}

bool isRecomputed(Operation *op) {
  auto unit = dyn_cast_or_null<UnitOp>(op);
  auto task = unit ? unit->getParentOfType<TaskOp>() : TaskOp();
  if (!task || unit.getPhase() != ir::Phase::Forward)
    return false;
  bool isBackward = task.getPhase() == ir::Phase::Backward ||
                    task.getPhase() == ir::Phase::BackwardInput ||
                    task.getPhase() == ir::Phase::BackwardWeight;
  return isView(unit) ? isRecomputed(unit.getOperand(0).getDefiningOp()) : isBackward;
}

int64_t bytesOf(Type type) { return bytesInLayout(toTensorType(type), layoutOf(type).str()); }

static std::string nameOfResult(StringRef name, StringRef op, unsigned number) {
  if (number == 0)
    return name.str();
  const Operator *known = findOperator(op);
  bool isNamed = known && number < known->outputs.size() && !known->outputs[number].variadic;
  return (name + ":" +
          (isNamed ? std::string(known->outputs[number].name) : std::to_string(number)))
      .str();
}

std::string tensorName(Value value) {
  auto result = dyn_cast<OpResult>(value);
  if (!result)
    return "argument";
  Operation *op = result.getOwner();
  if (auto cut = dyn_cast<CutOp>(op))
    return tensorName(cut.getValue());
  if (FlatSymbolRefAttr memory = memoryOf(op))
    return memory.getValue().str();
  if (auto node = dyn_cast<NodeOp>(op))
    return nameOfResult(node.getName(), node.getOp(), result.getResultNumber());
  auto unit = dyn_cast<UnitOp>(op);
  if (!unit)
    return op->getName().getStringRef().str();
  Operation *yield = unit.getBody().front().getTerminator();
  auto inner = dyn_cast<OpResult>(yield->getOperand(result.getResultNumber()));
  if (inner && isa<NodeOp>(inner.getOwner()))
    return tensorName(inner);
  return nameOfResult(unit.getName(), "", result.getResultNumber());
}

FlatSymbolRefAttr memoryOf(Operation *op) {
  if (auto read = dyn_cast<ReadOp>(op))
    return read.getMemoryAttr();
  if (auto version = dyn_cast<WeightVersionOp>(op))
    return version.getMemoryAttr();
  if (auto write = dyn_cast<WriteOp>(op))
    return write.getMemoryAttr();
  if (auto commit = dyn_cast<CommitOp>(op))
    return commit.getMemoryAttr();
  if (auto accumulate = dyn_cast<AccumulateOp>(op))
    return accumulate.getMemoryAttr();
  return {};
}

bool isUsedBefore(Operation *store, Operation *place) {
  for (Operation *op = store->getNextNode(); op != place; op = op->getNextNode())
    if (memoryOf(op) == memoryOf(store))
      return true;
  return false;
}

Value storedValue(Operation *op) {
  return isa<WriteOp, CommitOp, AccumulateOp>(op) ? op->getOperand(0) : Value();
}

bool isStoredBetween(FlatSymbolRefAttr memory, Operation *first, Operation *last) {
  for (Operation *op = first->getNextNode(); op != last; op = op->getNextNode())
    if (storedValue(op) && memoryOf(op) == memory)
      return true;
  return false;
}

bool isRead(Operation *op) { return isa_and_nonnull<ReadOp, WeightVersionOp>(op); }

ir::Phase taskPhase(UnitOp unit) {
  if (unit.getRate() == Rate::Version)
    return ir::Phase::Prepare;
  switch (unit.getPhase()) {
  case ir::Phase::BackwardInput:
  case ir::Phase::BackwardWeight:
    return ir::Phase::Backward;
  default:
    return unit.getPhase();
  }
}

} // namespace pdc
