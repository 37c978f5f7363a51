#include "passes/Passes.h"

#include "llvm/ADT/STLExtras.h"

namespace pdc {
#define GEN_PASS_DEF_GATHERUPDATES
#include "passes/Passes.h.inc"
} // namespace pdc

using namespace mlir;

namespace pdc {
namespace {

/// The memory that an operation gives its next value; null for any other operation.
FlatSymbolRefAttr updatedMemory(Operation *op) {
  if (auto commit = dyn_cast<ir::CommitOp>(op))
    return commit.getMemoryAttr();
  if (auto write = dyn_cast<ir::WriteOp>(op))
    return write.getMemoryAttr();
  return {};
}

/// By memory the last operation of a task that reads it.
DenseMap<mlir::Attribute, Operation *> lastReads(ir::TaskOp task) {
  DenseMap<mlir::Attribute, Operation *> reads;
  for (Operation &op : task.getBody().front()) {
    if (auto weight = dyn_cast<ir::WeightVersionOp>(op))
      reads[weight.getMemoryAttr()] = &op;
    else if (auto read = dyn_cast<ir::ReadOp>(op))
      reads[read.getMemoryAttr()] = &op;
  }
  return reads;
}

/// By memory the operations of a task that give it a next value.
DenseMap<mlir::Attribute, SmallVector<Operation *, 1>> findWrites(ir::TaskOp task) {
  DenseMap<mlir::Attribute, SmallVector<Operation *, 1>> writes;
  for (Operation &op : task.getBody().front())
    if (FlatSymbolRefAttr memory = updatedMemory(&op))
      writes[memory].push_back(&op);
  return writes;
}

/// The memory that a value was read from; null where a unit made it.
FlatSymbolRefAttr readMemory(Value value) {
  if (auto weight = value.getDefiningOp<ir::WeightVersionOp>())
    return weight.getMemoryAttr();
  if (auto read = value.getDefiningOp<ir::ReadOp>())
    return read.getMemoryAttr();
  return {};
}

/// Whether another than the unit writes, later in its task, a memory that the unit reads.
bool readsWhatIsWrittenLater(ir::UnitOp unit,
                             const DenseMap<mlir::Attribute, SmallVector<Operation *, 1>> &writes) {
  return llvm::any_of(unit->getOperands(), [&](Value operand) {
    auto found = writes.find(readMemory(operand));
    return found != writes.end() && llvm::any_of(found->second, [&](Operation *write) {
             return unit->isBeforeInBlock(write) && !llvm::is_contained(unit->getUsers(), write);
           });
  });
}

/// Whether the unit goes on with what another update makes, such as LAMB's direction of a weight:
/// those of all weights would be kept until then.
bool continuesAnUpdate(ir::UnitOp unit) {
  return llvm::any_of(unit.getOperands(), [](Value operand) {
    auto maker = operand.getDefiningOp<ir::UnitOp>();
    return maker && llvm::any_of(maker->getUsers(),
                                 [](Operation *user) { return bool(updatedMemory(user)); });
  });
}

/// A unit that makes next values of memories and nothing else, and what writes them, in its order.
using Update = SmallVector<Operation *, 4>;

SmallVector<Update> findUpdates(ir::TaskOp task) {
  const DenseMap<mlir::Attribute, Operation *> reads = lastReads(task);
  const auto writes = findWrites(task);
  auto isOver = [&](Operation *user) {
    FlatSymbolRefAttr memory = updatedMemory(user);
    Operation *read = memory ? reads.lookup(memory) : nullptr;
    return memory && (!read || read->isBeforeInBlock(user));
  };
  SmallVector<Update> updates;
  for (auto unit : task.getBody().getOps<ir::UnitOp>()) {
    if (!unit.getKernel() || unit->use_empty() || !llvm::all_of(unit->getUsers(), isOver) ||
        readsWhatIsWrittenLater(unit, writes) || continuesAnUpdate(unit))
      continue;
    Update &update = updates.emplace_back(1, unit);
    llvm::append_range(update, unit->getUsers());
    llvm::sort(update, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  }
  return updates;
}

struct GatherUpdates : impl::GatherUpdatesBase<GatherUpdates> {
  void runOnOperation() override {
    getOperation().walk([](ir::TaskOp task) {
      if (task.getPhase() != ir::Phase::Update)
        return;
      Operation *end = task.getBody().front().getTerminator();
      for (const Update &update : findUpdates(task))
        for (Operation *op : update)
          op->moveBefore(end);
    });
  }
};

} // namespace
} // namespace pdc
