#include "passes/Passes.h"
#include "passes/PlanChoice.h"
#include "passes/Refusal.h"
#include "passes/StageOutliner.h"
#include "passes/Values.h"

#include "compiler/schedule/Rows.h"

#include "mlir/IR/IRMapping.h"

namespace pdc {
#define GEN_PASS_DEF_SPLITBACKWARD
#include "passes/Passes.h.inc"
} // namespace pdc

using namespace mlir;
using namespace pdc::ir;

namespace pdc {
namespace {

/// Divides the backward task of one stage.
class BackwardSplitter {
public:
  BackwardSplitter(TaskOp backward, MemoryNames &names)
      : input(backward), names(names), symbols(backward->getParentOfType<ProgramOp>()) {}

  void split() {
    // 1. What the gradients that are sent are made of, and what they are written to.
    for (auto write : input.getOps<WriteOp>())
      if (roleOf(write.getMemoryAttr()) == Role::Outbox)
        need(write);
    // 2. The rest moves to a task of its own, in its order.
    input.setPhase(ir::Phase::BackwardInput);
    OpBuilder builder(input->getContext());
    builder.setInsertionPointAfter(input);
    weight = builder.create<TaskOp>(input.getLoc(), ir::Phase::BackwardWeight);
    weight.getBody().emplaceBlock();
    TaskOp::ensureTerminator(weight.getBody(), builder, weight.getLoc());
    for (Operation &op : llvm::make_early_inc_range(input.getOps()))
      if (moves(op))
        move(op);
    // 3. Reads and views that nobody is left to use.
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(input.getBody().front())))
      if (isRepeated(&op) && op.use_empty() && !receives(op))
        op.erase();
  }

private:
  Role roleOf(FlatSymbolRefAttr memory) {
    return symbols.lookup<MemoryOp>(memory.getValue()).getRole();
  }

  void need(Operation *op) {
    if (!op || !needed.insert(op))
      return;
    for (Value operand : op->getOperands())
      need(operand.getDefiningOp());
  }

  /// What costs nothing stands in each task that uses it.
  static bool isRepeated(Operation *op) { return isRead(op) || isView(op) || isa<AbsentOp>(op); }

  /// Whether the read says that a tensor is received for this task. It is, even where only the
  /// weight gradients use it: no sender waits for work that another rank has put off.
  bool receives(Operation &op) {
    auto read = dyn_cast<ReadOp>(op);
    return read && roleOf(read.getMemoryAttr()) == Role::Inbox;
  }

  /// A value is stored in the task that makes it.
  bool moves(Operation &op) {
    if (isRepeated(&op) || isa<YieldOp>(op))
      return false;
    Value stored = behindViews(storedValue(&op));
    return stored ? stored.getParentBlock() != &input.getBody().front() : !needed.contains(&op);
  }

  void move(Operation &op) {
    for (OpOperand &operand : op.getOpOperands())
      operand.set(valueInWeightTask(operand.get()));
    op.moveBefore(weight.getBody().front().getTerminator());
  }

  Value valueInWeightTask(Value value) {
    if (value.getParentBlock() == &weight.getBody().front())
      return value;
    Value &copy = copies[value];
    if (copy)
      return copy;
    Operation *definer = value.getDefiningOp();
    if (!isRepeated(definer))
      return copy = readStored(value);
    IRMapping operands;
    for (Value operand : definer->getOperands())
      operands.map(operand, valueInWeightTask(operand));
    OpBuilder builder(weight.getBody().front().getTerminator());
    return copies[value] = builder.clone(*definer, operands)->getResult(0);
  }

  /// What the input gradient leaves for the weight gradients lives in memory between them.
  Value readStored(Value value) {
    std::string memory;
    for (Operation *user : value.getUsers())
      if (auto write = dyn_cast<WriteOp>(user))
        memory = write.getMemory().str();
    if (memory.empty())
      memory = store(value);
    OpBuilder builder(weight.getBody().front().getTerminator());
    return builder.create<ReadOp>(value.getLoc(), value.getType(), memory);
  }

  std::string store(Value value) {
    std::string memory = names.unique(tensorName(value));
    OpBuilder builder(input->getParentOfType<StageOp>());
    symbols.insert(
        builder.create<MemoryOp>(value.getLoc(), memory, Role::Activation, Rate::Microbatch,
                                 cast<mlir::TensorType>(value.getType()), mlir::Attribute(),
                                 IntegerAttr(), HomeAttr(), ArrayAttr(), StringAttr()));
    builder.setInsertionPointAfterValue(value);
    builder.create<WriteOp>(value.getLoc(), value, memory);
    return memory;
  }

  TaskOp input, weight;
  MemoryNames &names;
  SymbolTable symbols;
  llvm::SetVector<Operation *> needed;
  llvm::DenseMap<Value, Value> copies;
};

struct SplitBackward : impl::SplitBackwardBase<SplitBackward> {
  using SplitBackwardBase::SplitBackwardBase;
  explicit SplitBackward(std::shared_ptr<const Plan> plan) : plan(std::move(plan)) {}

  void runOnOperation() override {
    if (failed(runChecked(getOperation(), [&] {
          split();
          return success();
        })))
      signalPassFailure();
  }

private:
  void split() {
    plan = choosePlan(plan, planFile);
    std::vector<bool> splits = plan ? findSplitStages(plannedRows()) : std::vector<bool>();
    MemoryNames names(getOperation());
    SmallVector<TaskOp> tasks;
    getOperation().walk([&](TaskOp task) {
      size_t stage = cast<StageOp>(task->getParentOp()).getId();
      if (task.getPhase() == ir::Phase::Backward &&
          (!plan || (stage < splits.size() && splits[stage])))
        tasks.push_back(task);
    });
    for (TaskOp task : tasks)
      BackwardSplitter(task, names).split();
  }

  Schedule plannedRows() const {
    int stages = static_cast<int>(plan->stages.size());
    return computeRows(*plan, pipelineOf(*plan, stages));
  }

  std::shared_ptr<const Plan> plan;
};

} // namespace

std::unique_ptr<Pass> createSplitBackward(std::shared_ptr<const Plan> plan) {
  return std::make_unique<SplitBackward>(std::move(plan));
}

} // namespace pdc
