#include "passes/GradientSums.h"
#include "passes/Nodes.h"
#include "passes/Passes.h"
#include "passes/PlanChoice.h"
#include "passes/Refusal.h"
#include "passes/Values.h"

#include "compiler/Error.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

#include <map>
#include <set>

namespace pdc {
#define GEN_PASS_DEF_ASSIGNSTAGES
#include "passes/Passes.h.inc"
} // namespace pdc

using namespace mlir;
using namespace pdc::ir;

namespace pdc {
namespace {

std::string quoted(UnitOp unit) {
  return "'" + unit.getName().str() + "' (stage " + std::to_string(*unit.getStage()) + ")";
}

struct AssignStages : impl::AssignStagesBase<AssignStages> {
  using AssignStagesBase::AssignStagesBase;
  explicit AssignStages(std::shared_ptr<const Plan> plan) : plan(std::move(plan)) {}

  void runOnOperation() override {
    auto body = [&] {
      assign();
      return success();
    };
    if (failed(runChecked(getOperation(), body)))
      signalPassFailure();
  }

private:
  void assign() {
    plan = choosePlan(plan, planFile);
    if (!plan)
      throw Error("assign-stages needs a plan: give its file with plan=FILE");
    collectPlan();
    collectReads();
    // 1. What the plan names, and all that shares its origin.
    for (auto function : getOperation().getOps<func::FuncOp>())
      for (UnitOp unit : function.getOps<UnitOp>()) {
        assignByOrigin(unit);
        followOperands(unit);
        // The plan names the first of those that it plans as one.
        if (unit.getStage() && taskPhase(unit) == ir::Phase::Forward)
          stageOfUnit[unit.getName()] = static_cast<int>(*unit.getStage());
      }
    // 2. What the compiler added: prepared weights go where they are read, the rest follows its
    //    operands, what has none its readers. Updates come last: what reads a weight may be its
    //    preparation alone.
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      for (UnitOp unit : function.getOps<UnitOp>())
        if (!unit.getStage() && taskPhase(unit) != ir::Phase::Prepare)
          assignByOperands(unit, function);
      SmallVector<UnitOp> units = llvm::to_vector(function.getOps<UnitOp>());
      for (bool updates : {false, true})
        for (UnitOp unit : llvm::reverse(units))
          if (!unit.getStage() && (taskPhase(unit) == ir::Phase::Update) == updates)
            assignByReaders(unit);
      bringSumsForward(function);
    }
    for (auto function : getOperation().getOps<func::FuncOp>())
      for (UnitOp unit : function.getOps<UnitOp>())
        checkUnit(unit);
    checkStates();
    checkPlan();
  }

  void collectPlan() {
    for (const PlanStage &stage : plan->stages) {
      for (const std::string &unit : stage.units)
        stageOfUnit[unit] = stage.id;
      for (const std::string &node : stage.nodes)
        stageOfNode[node] = stage.id;
    }
  }

  void collectReads() {
    for (auto function : getOperation().getOps<func::FuncOp>())
      for (Operation &op : function.getOps())
        if (isRead(&op))
          reads[memoryOf(&op).getAttr()].push_back(&op);
  }

  /// A plan of another model, or of this one before it was changed, is refused.
  void checkPlan() {
    llvm::StringSet<> nodes, units;
    for (auto function : getOperation().getOps<func::FuncOp>())
      for (UnitOp unit : function.getOps<UnitOp>()) {
        units.insert(unit.getName());
        for (NodeOp node : unit.getBody().getOps<NodeOp>())
          nodes.insert(node.getName());
      }
    for (const PlanStage &stage : plan->stages) {
      for (const std::string &unit : stage.units)
        if (!units.contains(unit))
          refuseName("unit", unit, stage.id);
      for (const std::string &node : stage.nodes)
        if (!nodes.contains(node))
          refuseName("node", node, stage.id);
    }
    auto size = getOperation()->getAttrOfType<IntegerAttr>("pdc.microbatch_size");
    if (size && plan->microbatchSize && size.getInt() != plan->microbatchSize)
      throw Error("the plan is for microbatches of " + std::to_string(plan->microbatchSize) +
                  " samples, but the graph's have " + std::to_string(size.getInt()) +
                  "; plan the model again");
  }

  [[noreturn]] static void refuseName(const char *kind, const std::string &name, int stage) {
    throw Error(std::string("stage ") + std::to_string(stage) + " of the plan names " + kind +
                " '" + name + "', which the graph does not have; plan the model again");
  }

  void setStage(UnitOp unit, int stage) { unit.setStage(stage); }

  /// Units that the plan does not name share a node with one that it does (another fusion in
  /// @evaluate).
  void assignByOrigin(UnitOp unit) {
    if (taskPhase(unit) == ir::Phase::Prepare)
      return;
    // A change of layout is planned by itself, though it comes from its reader.
    if (auto found = stageOfUnit.find(unit.getName());
        found != stageOfUnit.end() && taskPhase(unit) == ir::Phase::Forward)
      return setStage(unit, found->second);
    if (auto found = stageOfUnit.find(unit.getOrigin()); found != stageOfUnit.end())
      return setStage(unit, found->second);
    if (auto found = stageOfNode.find(unit.getOrigin()); found != stageOfNode.end())
      return setStage(unit, found->second);
    for (NodeOp node : unit.getBody().getOps<NodeOp>())
      if (auto found = stageOfNode.find(node.getName()); found != stageOfNode.end())
        return setStage(unit, found->second);
  }

  /// The latest stage of the units that make what a unit reads, or -1.
  static int latestOfOperands(UnitOp unit) {
    int64_t latest = -1;
    for (Value operand : unit.getOperands())
      if (auto producer = operand.getDefiningOp<UnitOp>(); producer && producer.getStage())
        latest = std::max<int64_t>(latest, *producer.getStage());
    return static_cast<int>(latest);
  }

  /// What only @evaluate computes reads values that its origin may not know: it is never earlier
  /// than they are.
  void followOperands(UnitOp unit) {
    if (taskPhase(unit) == ir::Phase::Evaluate && unit.getStage())
      setStage(unit, std::max(static_cast<int>(*unit.getStage()), latestOfOperands(unit)));
  }

  /// The plan names every unit of the forward pass.
  void assignByOperands(UnitOp unit, func::FuncOp function) {
    if (function.getSymName() == "train" && taskPhase(unit) == ir::Phase::Forward)
      throw Error("the plan gives unit '" + unit.getName().str() +
                  "' no stage; plan the model again");
    if (int latest = latestOfOperands(unit); latest >= 0)
      setStage(unit, latest);
  }

  void assignByReaders(UnitOp unit) {
    std::optional<int64_t> stage;
    auto see = [&](Operation *reader) {
      if (auto other = dyn_cast<UnitOp>(reader); other && other.getStage())
        stage =
            std::min(stage.value_or(*other.getStage()), static_cast<int64_t>(*other.getStage()));
    };
    for (Operation *user : unit->getUsers()) {
      see(user);
      if (storedValue(user))
        for (Operation *reader : readersOf(memoryOf(user)))
          see(reader);
    }
    if (!stage)
      throw Error(
          "the plan gives unit '" + unit.getName().str() +
          "' no stage, and nothing that it reads or that reads it has one; plan the model again");
    setStage(unit, static_cast<int>(*stage));
  }

  /// The gradient of what is made of weights alone is planned with the first that reads it, and
  /// others may read it in earlier stages. What stacks gradients is copied to where it is read: the
  /// earlier stage would otherwise have to hold a weight that nothing else there reads.
  static void bringSumsForward(func::FuncOp function) {
    const GradientSums sums(function, [](UnitOp unit) { return int64_t(*unit.getStage()); });
    const SmallVector<UnitOp> units(function.getOps<UnitOp>());
    for (UnitOp unit : units)
      unit.setStage(sums.placeOf(unit));
    StackCopies copies;
    for (UnitOp unit : units)
      if (sums.feeds(unit))
        copies.readFrom(unit);
  }

  /// Copies of what stacks gradients in earlier stages than it is read in.
  class StackCopies {
  public:
    void readFrom(UnitOp reader) {
      for (OpOperand &operand : reader->getOpOperands()) {
        auto stack = operand.get().getDefiningOp<UnitOp>();
        if (!stack || taskPhase(stack) != ir::Phase::Backward ||
            *stack.getStage() >= *reader.getStage())
          continue;
        UnitOp &copy = copies[{stack, *reader.getStage()}];
        if (!copy) {
          copy = copyTo(*reader.getStage(), stack);
          readFrom(copy);
        }
        operand.set(copy.getResult(0));
      }
    }

  private:
    static UnitOp copyTo(uint64_t stage, UnitOp unit) {
      OpBuilder builder(unit->getContext());
      builder.setInsertionPointAfter(unit);
      auto copy = cast<UnitOp>(builder.clone(*unit));
      NodeNames names(unit->getParentOp());
      copy.walk([&](NodeOp node) { node.setName(names.unique(node.getName())); });
      copy.setName(names.unique(unit.getName() + "/stage" + Twine(stage)));
      copy.setStage(stage);
      return copy;
    }

    std::map<std::pair<Operation *, uint64_t>, UnitOp> copies;
  };

  /// All operations that use what is read from a memory, in any function.
  SmallVector<Operation *> readersOf(FlatSymbolRefAttr memory) {
    SmallVector<Operation *> readers;
    for (Operation *read : reads[memory.getAttr()])
      llvm::append_range(readers, read->getUsers());
    return readers;
  }

  /// A stage is convex when forward values only go to the same or a later stage and backward values
  /// to the same or an earlier one. What no microbatch changes goes nowhere: each stage that reads
  /// it makes it (hold-tied-weights).
  void checkUnit(UnitOp unit) {
    for (Value operand : unit.getOperands()) {
      auto producer = operand.getDefiningOp<UnitOp>();
      if (!producer || producer.getRate() < Rate::Microbatch)
        continue;
      int64_t from = *producer.getStage(), to = *unit.getStage();
      bool fromBackward = taskPhase(producer) == ir::Phase::Backward;
      bool toBackward = taskPhase(unit) == ir::Phase::Backward;
      if (!toBackward && from > to)
        throw Error("unit " + quoted(unit) + " reads '" + tensorName(operand) + "' of unit " +
                    quoted(producer) +
                    ", a later stage: a stage must be convex, its values go to "
                    "later stages only; move one of the two in the assignment of nodes to stages");
      if (fromBackward && toBackward && from < to)
        throw Error("unit " + quoted(unit) + " of the backward pass reads '" + tensorName(operand) +
                    "' of unit " + quoted(producer) +
                    ", an earlier stage: gradients go to earlier "
                    "stages only; move one of the two in the assignment of nodes to stages");
    }
  }

  /// Running statistics have one home, since microbatches meet them in order.
  void checkStates() {
    std::map<StringRef, std::map<int64_t, UnitOp>> users;
    for (auto function : getOperation().getOps<func::FuncOp>())
      for (Operation &op : function.getOps()) {
        if (isRead(&op))
          for (Operation *user : op.getUsers())
            if (auto unit = dyn_cast<UnitOp>(user))
              users[memoryOf(&op).getValue()][*unit.getStage()] = unit;
        if (Value stored = storedValue(&op))
          if (auto unit = stored.getDefiningOp<UnitOp>())
            users[memoryOf(&op).getValue()][*unit.getStage()] = unit;
      }
    SymbolTable symbols(getOperation());
    for (auto &[name, stages] : users) {
      auto memory = symbols.lookup<MemoryOp>(name);
      if (stages.size() > 1 && memory && memory.getRole() == Role::State)
        throw Error("state '" + name.str() + "' is used by unit " + quoted(stages.begin()->second) +
                    " and by unit " + quoted(std::next(stages.begin())->second) +
                    ": running statistics belong to one stage; put its users into one stage");
    }
  }

  std::shared_ptr<const Plan> plan;
  llvm::StringMap<int> stageOfUnit, stageOfNode;
  llvm::DenseMap<StringAttr, SmallVector<Operation *>> reads; ///< by memory
};

} // namespace

std::unique_ptr<Pass> createAssignStages(std::shared_ptr<const Plan> plan) {
  return std::make_unique<AssignStages>(std::move(plan));
}

} // namespace pdc
