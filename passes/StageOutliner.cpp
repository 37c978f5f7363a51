#include "passes/StageOutliner.h"

#include "compiler/Error.h"
#include "passes/Values.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace pdc::ir;

namespace pdc {

MemoryNames::MemoryNames(ModuleOp module) {
  module.walk([&](MemoryOp memory) { taken.insert(memory.getSymName()); });
}

std::string MemoryNames::unique(const std::string &wanted) {
  std::string name = wanted;
  for (int number = 2; !taken.insert(name).second; ++number)
    name = wanted + "_" + std::to_string(number);
  return name;
}

mlir::Attribute Crossing::transferTo(int64_t stage) const {
  for (mlir::Attribute transfer : transfers)
    if (cast<TransferAttr>(transfer).getTo() == stage)
      return transfer;
  return {};
}

Crossings findCrossings(ModuleOp module, MemoryNames &names) {
  Crossings crossings;
  int64_t tag = 0;
  for (auto function : module.getOps<func::FuncOp>())
    for (auto cut : function.getOps<CutOp>()) {
      Crossing &crossing = crossings[cut.getValue()];
      if (crossing.memory.empty()) {
        std::string prefix = function.getSymName() == "evaluate" ? "evaluate/" : "";
        crossing.memory = names.unique(prefix + tensorName(cut.getValue()));
      }
      crossing.transfers.push_back(
          TransferAttr::get(module.getContext(), tag++, cut.getFrom(), cut.getTo()));
    }
  return crossings;
}

void StageOutliner::outline(StageOp target, func::FuncOp train, func::FuncOp evaluate) {
  OpBuilder builder(target.getContext());
  builder.setInsertionPointToEnd(&target.getBody().front());
  for (ir::Phase phase : {ir::Phase::Prepare, ir::Phase::Forward, ir::Phase::Backward,
                          ir::Phase::Update, ir::Phase::Evaluate}) {
    auto op = builder.create<TaskOp>(target.getLoc(), phase);
    op.getBody().emplaceBlock();
    TaskOp::ensureTerminator(op.getBody(), builder, op.getLoc());
    tasks.push_back({op, {}});
  }
  for (TaskBody &task : tasks) {
    if (train && task.op.getPhase() != ir::Phase::Evaluate)
      addOperations(task, train);
    if (evaluate &&
        llvm::is_contained({ir::Phase::Prepare, ir::Phase::Evaluate}, task.op.getPhase()))
      addOperations(task, evaluate);
  }
}

bool StageOutliner::belongs(UnitOp unit, TaskBody &task) const {
  if (static_cast<int64_t>(*unit.getStage()) != stage)
    return false;
  ir::Phase phase = taskPhase(unit);
  auto function = unit->getParentOfType<func::FuncOp>();
  if (phase != ir::Phase::Prepare && function && function.getSymName() == "evaluate")
    phase = ir::Phase::Evaluate;
  return phase == task.op.getPhase();
}

/// What evaluation makes of weights alone it makes where it reads it, but for what it keeps and
/// what crosses to another stage.
bool StageOutliner::isRepeated(UnitOp unit, TaskBody &task) const {
  return task.op.getPhase() == ir::Phase::Prepare &&
         unit->getParentOfType<func::FuncOp>().getSymName() == "evaluate" &&
         llvm::none_of(unit.getResults(), [&](Value result) { return crossings.contains(result); });
}

void StageOutliner::addOperations(TaskBody &task, func::FuncOp function) {
  for (Operation &op : function.getOps()) {
    if (auto unit = dyn_cast<UnitOp>(op)) {
      if (belongs(unit, task) && !isRepeated(unit, task))
        addUnit(task, unit);
    } else if (Value stored = storedValue(&op)) {
      auto producer = stored.getDefiningOp<UnitOp>();
      if (!producer)
        throw Error("memory '" + memoryOf(&op).getValue().str() + "' is given '" +
                    tensorName(stored) + "', which no unit makes: a write is never a copy");
      if (!belongs(producer, task))
        continue;
      if (isRepeated(producer, task) && !prepared.contains(producer.getName()))
        valueIn(task, stored);
      addStore(task, &op);
    }
  }
}

/// Clones before the task's terminator with operands of this task.
Operation *StageOutliner::cloneInto(TaskBody &task, Operation *op) {
  IRMapping operands;
  for (Value operand : op->getOperands())
    operands.map(operand, valueIn(task, operand));
  OpBuilder builder(task.op.getBody().front().getTerminator());
  return builder.clone(*op, operands);
}

void StageOutliner::addUnit(TaskBody &task, UnitOp unit) {
  // @train and @evaluate may both hold the packing of one weight.
  if (task.op.getPhase() == ir::Phase::Prepare && !prepared.insert(unit.getName()).second)
    return;
  Operation *clone = cloneInto(task, unit);
  OpBuilder builder(task.op.getBody().front().getTerminator());
  for (auto [result, copy] : llvm::zip(unit.getResults(), clone->getResults())) {
    task.values.map(result, copy);
    auto crossing = crossings.find(result);
    if (crossing == crossings.end())
      continue;
    builder.create<WriteOp>(unit.getLoc(), copy, crossing->second.memory);
    storage[result] = crossing->second.memory;
    newMemories.push_back(
        {crossing->second.memory, Role::Outbox, result.getType(), crossing->second.transfers});
  }
}

void StageOutliner::addStore(TaskBody &task, Operation *store) {
  Value copy = task.values.lookupOrNull(store->getOperand(0));
  if (!copy)
    return; // the unit stands in the task already, out of the other function
  OpBuilder builder(task.op.getBody().front().getTerminator());
  IRMapping operands;
  operands.map(store->getOperand(0), copy);
  builder.clone(*store, operands);
  touchedMemories.insert(memoryOf(store).getAttr());
  written[memoryOf(store).getAttr()] = store;
}

Value StageOutliner::valueIn(TaskBody &task, Value value) {
  if (Value known = task.values.lookupOrNull(value))
    return known;
  Operation *definer = value.getDefiningOp();
  if (auto cut = dyn_cast<CutOp>(definer))
    return readInbox(task, cut);
  if (isRead(definer) || isa<AbsentOp>(definer))
    return readCopy(task, definer);
  auto producer = dyn_cast<UnitOp>(definer);
  if (!producer)
    throw Error("'" + tensorName(value) + "' is made outside of a unit; run form-units first");
  bool repeats = isView(producer) || taskPhase(producer) == ir::Phase::Prepare ||
                 producer.getRate() == Rate::Once;
  if (repeats && !crossings.count(value)) {
    Operation *clone = cloneInto(task, producer);
    for (auto [result, copy] : llvm::zip(producer.getResults(), clone->getResults()))
      task.values.map(result, copy);
    return task.values.lookup(value);
  }
  return readStored(task, value, producer);
}

/// A read moves down to its first reader; nothing may have changed the memory between.
Value StageOutliner::readCopy(TaskBody &task, Operation *read) {
  if (FlatSymbolRefAttr memory = memoryOf(read)) {
    Operation *write = written.lookup(memory.getAttr());
    if (write && write->getBlock() == read->getBlock() && read->isBeforeInBlock(write))
      throw Error("memory '" + memory.getValue().str() +
                  "' is read for a unit that runs after its next value is written");
    touchedMemories.insert(memory.getAttr());
  }
  OpBuilder builder(task.op.getBody().front().getTerminator());
  Operation *clone = builder.clone(*read);
  if (auto input = dyn_cast<ReadOp>(clone))
    if (auto memory = symbols.lookup<MemoryOp>(input.getMemory()))
      input.setMemoryAttr(FlatSymbolRefAttr::get(nameHere(memory)));
  task.values.map(read->getResult(0), clone->getResult(0));
  return clone->getResult(0);
}

StringAttr StageOutliner::nameHere(MemoryOp memory) const {
  bool isOfMicrobatch = memory.getRole() == Role::Input && memory.getRate() == Rate::Microbatch;
  if (!isOfMicrobatch)
    return memory.getSymNameAttr();
  return StringAttr::get(memory.getContext(), prefix + memory.getSymName());
}

Value StageOutliner::readNamed(TaskBody &task, Value value, const std::string &memory) {
  OpBuilder builder(task.op.getBody().front().getTerminator());
  auto read = builder.create<ReadOp>(value.getLoc(), value.getType(), memory);
  task.values.map(value, read.getValue());
  return read.getValue();
}

Value StageOutliner::readInbox(TaskBody &task, CutOp cut) {
  const Crossing &crossing = crossings.find(cut.getValue())->second;
  std::string &inbox = inboxes[crossing.memory];
  if (inbox.empty()) {
    inbox = prefix.empty() ? crossing.memory : names.unique(prefix + crossing.memory);
    newMemories.push_back(
        {inbox, Role::Inbox, cut.getResult().getType(), {crossing.transferTo(stage)}});
  }
  return readNamed(task, cut.getResult(), inbox);
}

Value StageOutliner::readStored(TaskBody &task, Value value, UnitOp producer) {
  if (static_cast<int64_t>(*producer.getStage()) != stage)
    throw Error("'" + tensorName(value) + "' of stage " + std::to_string(*producer.getStage()) +
                " is read on stage " + std::to_string(stage) +
                " without a cut; run insert-cuts first");
  bool keeps =
      task.op.getPhase() == ir::Phase::Backward && taskPhase(producer) == ir::Phase::Forward;
  if (!keeps)
    throw Error("'" + tensorName(value) + "' of unit '" + producer.getName().str() + "' (" +
                stringifyPhase(taskPhase(producer)).str() + ") is read in the " +
                stringifyPhase(task.op.getPhase()).str() +
                " task; only memories and what the forward pass makes for the backward pass live "
                "from task to task");
  return readNamed(task, value, storageOf(value, producer));
}

/// The memory that holds a value from task to task; the first call adds the write.
const std::string &StageOutliner::storageOf(Value value, UnitOp producer) {
  std::string &memory = storage[value];
  if (!memory.empty())
    return memory;
  memory = names.unique(tensorName(value));
  for (TaskBody &task : tasks)
    if (belongs(producer, task)) {
      Value copy = task.values.lookup(value);
      OpBuilder builder(copy.getContext());
      builder.setInsertionPointAfterValue(copy);
      builder.create<WriteOp>(producer.getLoc(), copy, memory);
    }
  newMemories.push_back({memory, Role::Activation, value.getType(), {}});
  return memory;
}

} // namespace pdc
