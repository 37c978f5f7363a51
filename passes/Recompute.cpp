#include "passes/Passes.h"
#include "passes/PlanChoice.h"
#include "passes/Refusal.h"
#include "passes/Values.h"

#include "compiler/Error.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/DenseSet.h"

#include <map>

namespace pdc {
#define GEN_PASS_DEF_RECOMPUTE
#include "passes/Passes.h.inc"
} // namespace pdc

using namespace mlir;
using namespace pdc::ir;

namespace pdc {
namespace {

/// Lets the backward task of one stage make again what its forward task would keep for it.
class ForwardRepeater {
public:
  explicit ForwardRepeater(StageOp stage)
      : stage(stage), forward(findTask(ir::Phase::Forward)),
        backward(findTask(ir::Phase::Backward)), symbols(stage->getParentOfType<ProgramOp>()) {}

  void repeat() {
    // 1. What is kept, and the units that it is made of.
    findStores();
    for (auto &[memory, write] : kept)
      need(write.getValue());
    // 2. They run again before the backward pass, in their order.
    insertionPoint = &backward.getBody().front().front();
    for (Operation &op : forward.getOps())
      if (needed.contains(&op))
        copyUnit(cast<UnitOp>(op));
    // 3. Their results take the place of what was kept; what is sent is read once.
    for (Operation &op : llvm::make_early_inc_range(backward.getOps()))
      replaceRead(op);
    for (auto &[memory, write] : kept) {
      write.erase();
      symbols.erase(symbols.lookup(memory));
    }
    // 4. What the forward task made for the backward pass alone.
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(forward.getBody().front())))
      if (isOpTriviallyDead(&op))
        op.erase();
  }

private:
  TaskOp findTask(ir::Phase phase) {
    for (auto task : stage.getOps<TaskOp>())
      if (task.getPhase() == phase)
        return task;
    throw Error("stage " + std::to_string(stage.getId()) + " has no " +
                stringifyPhase(phase).str() +
                " task; run recompute behind outline-programs and before split-backward");
  }

  void findStores() {
    for (auto write : forward.getOps<WriteOp>()) {
      Role role = symbols.lookup<MemoryOp>(write.getMemory()).getRole();
      if (role == Role::Activation)
        kept[write.getMemory().str()] = write;
      else if (role == Role::Outbox)
        sent[write.getValue()] = write;
    }
  }

  /// What is sent stays in its outbox: it is read there, not made again.
  void need(Value value) {
    Operation *definer = value.getDefiningOp();
    if (sent.contains(value) || !isa<UnitOp>(definer) || !needed.insert(definer).second)
      return;
    for (Value operand : definer->getOperands())
      need(operand);
  }

  /// Nothing that the unit's results were written or added to sees the second run: running
  /// statistics, losses and metrics change once per microbatch.
  void copyUnit(UnitOp unit) {
    IRMapping operands;
    for (Value operand : unit.getOperands())
      operands.map(operand, valueInBackward(operand));
    Operation *copy = OpBuilder(insertionPoint).clone(*unit, operands);
    for (auto [result, again] : llvm::zip(unit.getResults(), copy->getResults()))
      if (!sent.contains(result))
        copies[result] = again;
  }

  Value valueInBackward(Value value) {
    Value &copy = copies[value];
    if (copy)
      return copy;
    OpBuilder builder(insertionPoint);
    if (auto write = sent.lookup(value))
      copy = builder.create<ReadOp>(value.getLoc(), value.getType(), write.getMemoryAttr());
    else
      copy = builder.clone(*value.getDefiningOp())->getResult(0);
    if (FlatSymbolRefAttr memory = memoryOf(copy.getDefiningOp()))
      reads.try_emplace(memory.getAttr(), copy);
    return copy;
  }

  void replaceRead(Operation &op) {
    FlatSymbolRefAttr memory = isRead(&op) ? memoryOf(&op) : FlatSymbolRefAttr();
    if (!memory)
      return;
    Value other = reads.lookup(memory.getAttr());
    if (auto write = kept.find(memory.getValue().str()); write != kept.end())
      other = copies.lookup(write->second.getValue());
    if (!other || other == op.getResult(0))
      return;
    op.getResult(0).replaceAllUsesWith(other);
    op.erase();
  }

  StageOp stage;
  TaskOp forward, backward;
  SymbolTable symbols;
  std::map<std::string, WriteOp> kept; ///< by memory
  llvm::DenseMap<Value, WriteOp> sent;
  llvm::DenseSet<Operation *> needed;
  Operation *insertionPoint = nullptr;
  llvm::DenseMap<Value, Value> copies;
  llvm::DenseMap<StringAttr, Value> reads; ///< the first one added of each memory
};

struct Recompute : impl::RecomputeBase<Recompute> {
  using RecomputeBase::RecomputeBase;
  explicit Recompute(std::shared_ptr<const Plan> plan) : plan(std::move(plan)) {}

  void runOnOperation() override {
    if (failed(runChecked(getOperation(), [&] {
          recompute();
          return success();
        })))
      signalPassFailure();
  }

private:
  void recompute() {
    plan = choosePlan(plan, planFile);
    SmallVector<StageOp> stages;
    getOperation().walk([&](StageOp stage) {
      if (!plan || (stage.getId() < plan->stages.size() && plan->stages[stage.getId()].recompute))
        stages.push_back(stage);
    });
    for (StageOp stage : stages)
      ForwardRepeater(stage).repeat();
  }

  std::shared_ptr<const Plan> plan;
};

} // namespace

std::unique_ptr<Pass> createRecompute(std::shared_ptr<const Plan> plan) {
  return std::make_unique<Recompute>(std::move(plan));
}

} // namespace pdc
