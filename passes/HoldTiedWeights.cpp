#include "passes/Passes.h"
#include "passes/PlanChoice.h"
#include "passes/Refusal.h"
#include "passes/Values.h"

#include "compiler/Error.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"

#include <map>
#include <set>

namespace pdc {
#define GEN_PASS_DEF_HOLDTIEDWEIGHTS
#include "passes/Passes.h.inc"
} // namespace pdc

using namespace mlir;
using namespace pdc::ir;

namespace pdc {
namespace {

struct HoldTiedWeights : impl::HoldTiedWeightsBase<HoldTiedWeights> {
  using HoldTiedWeightsBase::HoldTiedWeightsBase;
  explicit HoldTiedWeights(std::shared_ptr<const Plan> plan) : plan(std::move(plan)) {}

  void runOnOperation() override {
    auto body = [&] {
      plan = choosePlan(plan, planFile);
      functions = llvm::to_vector(getOperation().getOps<func::FuncOp>());
      collectTouching();
      // From the last to the first: what a copy reads is copied after it.
      for (func::FuncOp function : functions) {
        SmallVector<UnitOp> units(function.getOps<UnitOp>());
        for (UnitOp unit : llvm::reverse(units))
          if (unit.getRate() < Rate::Microbatch)
            makeWhereRead(unit);
      }
      // What is prepared comes first: its preparation reads weights where it is copied to.
      for (Role role : {Role::Derived, Role::Weight})
        for (auto memory : getOperation().getOps<MemoryOp>())
          if (memory.getRole() == role)
            holdWhereRead(memory);
      return success();
    };
    if (failed(runChecked(getOperation(), body)))
      signalPassFailure();
  }

private:
  void collectTouching() {
    for (func::FuncOp function : functions)
      for (Operation &op : function.getOps())
        if (FlatSymbolRefAttr memory = memoryOf(&op))
          touching[memory.getAttr()].push_back(&op);
  }

  /// A value that no microbatch changes (a view of a weight, positions in evaluation) crosses to no
  /// other stage: each stage that reads it makes it.
  void makeWhereRead(UnitOp unit) {
    for (OpResult result : unit->getResults())
      for (OpOperand &use : llvm::make_early_inc_range(result.getUses()))
        if (auto reader = dyn_cast<UnitOp>(use.getOwner());
            reader && *reader.getStage() != *unit.getStage())
          use.set(copyTo(static_cast<int64_t>(*reader.getStage()), unit)
                      .getResult(result.getResultNumber()));
  }

  /// Each program that reads the memory makes its next value itself.
  void holdWhereRead(MemoryOp memory) {
    for (func::FuncOp function : functions) {
      SmallVector<UnitOp> makers = makersOf(memory, function);
      std::set<std::vector<int>> holders;
      for (UnitOp maker : makers)
        holders.insert(ranksOf(*maker.getStage()));
      for (int64_t stage : readersOf(memory))
        if (!makers.empty() && holders.insert(ranksOf(stage)).second)
          copyTo(stage, makers.front());
    }
  }

  std::vector<int> ranksOf(int64_t stage) {
    return ranksOfStages(plan.get(), static_cast<int>(stage) + 1).back();
  }

  SmallVector<UnitOp> makersOf(MemoryOp memory, func::FuncOp function) {
    SmallVector<UnitOp> makers;
    for (Operation *op : touching[memory.getSymNameAttr()])
      if (Value stored = storedValue(op); stored && op->getParentOp() == function)
        if (auto unit = stored.getDefiningOp<UnitOp>())
          makers.push_back(unit);
    return makers;
  }

  std::set<int64_t> readersOf(MemoryOp memory) {
    std::set<int64_t> stages;
    for (Operation *op : touching[memory.getSymNameAttr()])
      if (isRead(op))
        for (Operation *user : op->getUsers())
          if (auto unit = dyn_cast<UnitOp>(user))
            stages.insert(*unit.getStage());
    return stages;
  }

  /// Copies a unit, what it stores (once per rank) and the units of its task that it is made from to a
  /// stage. A stage has one of them, whichever stage's it would be a copy of.
  UnitOp copyTo(int64_t stage, UnitOp unit) {
    if (UnitOp origin = origins.lookup(unit))
      unit = origin;
    if (static_cast<int64_t>(*unit.getStage()) == stage)
      return unit;
    UnitOp &copy = copies[{unit.getOperation(), stage}];
    if (copy)
      return copy;
    IRMapping operands;
    for (Value operand : unit.getOperands())
      if (auto producer = operand.getDefiningOp<UnitOp>();
          producer && taskPhase(producer) == taskPhase(unit) &&
          static_cast<int64_t>(*producer.getStage()) != stage)
        operands.map(operand,
                     copyTo(stage, producer).getResult(cast<OpResult>(operand).getResultNumber()));
    OpBuilder builder(unit->getContext());
    builder.setInsertionPointAfter(unit);
    auto made = cast<UnitOp>(builder.clone(*unit, operands));
    made.setName((unit.getName() + "/stage." + Twine(stage)).str());
    made.setStage(stage);
    copy = made;
    origins[made] = unit;
    for (auto [value, copied] : llvm::zip(unit.getResults(), made.getResults()))
      for (Operation *user : llvm::to_vector(value.getUsers()))
        if (storedValue(user) && isFirstStore(memoryOf(user), unit, stage)) {
          IRMapping stored;
          stored.map(value, copied);
          addTouching(builder.clone(*user, stored));
        }
    return made;
  }

  void addTouching(Operation *store) {
    SmallVector<Operation *> &list = touching[memoryOf(store).getAttr()];
    auto isBehind = [&](Operation *op) {
      return op->getBlock() == store->getBlock() && store->isBeforeInBlock(op);
    };
    list.insert(llvm::find_if(list, isBehind), store);
  }

  bool isFirstStore(FlatSymbolRefAttr memory, UnitOp unit, int64_t stage) {
    stores.insert({memory.getValue().str(), ranksOf(*unit.getStage())});
    return stores.insert({memory.getValue().str(), ranksOf(stage)}).second;
  }

  std::shared_ptr<const Plan> plan;
  SmallVector<func::FuncOp> functions;
  /// By memory: what reads or stores it, each function's in their order.
  llvm::DenseMap<StringAttr, SmallVector<Operation *>> touching;
  std::map<std::pair<Operation *, int64_t>, UnitOp> copies;
  llvm::DenseMap<Operation *, UnitOp> origins; ///< of copies
  std::set<std::pair<std::string, std::vector<int>>> stores;
};

} // namespace

std::unique_ptr<Pass> createHoldTiedWeights(std::shared_ptr<const Plan> plan) {
  return std::make_unique<HoldTiedWeights>(std::move(plan));
}

} // namespace pdc
