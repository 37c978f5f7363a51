#include "passes/Passes.h"
#include "passes/PlanChoice.h"
#include "passes/Refusal.h"
#include "passes/StageOutliner.h"

#include "compiler/Error.h"
#include "compiler/ir/TensorName.h"

#include <map>

namespace pdc {
#define GEN_PASS_DEF_OUTLINEPROGRAMS
#include "passes/Passes.h.inc"
} // namespace pdc

using namespace mlir;
using namespace pdc::ir;

namespace pdc {
namespace {

struct OutlinePrograms : impl::OutlineProgramsBase<OutlinePrograms> {
  using OutlineProgramsBase::OutlineProgramsBase;
  explicit OutlinePrograms(std::shared_ptr<const Plan> plan) : plan(std::move(plan)) {}

  void runOnOperation() override {
    auto body = [&] {
      outline();
      return success();
    };
    if (failed(runChecked(getOperation(), body)))
      signalPassFailure();
  }

private:
  void outline() {
    ModuleOp module = getOperation();
    plan = choosePlan(plan, planFile);
    train = module.lookupSymbol<func::FuncOp>("train");
    evaluate = module.lookupSymbol<func::FuncOp>("evaluate");
    // 1. Which ranks run which stages.
    std::map<std::vector<int>, std::vector<int>> stagesOfRanks = placeStages();
    // 2. What crosses, under one name and tag on both sides.
    const SymbolTable symbols(module);
    MemoryNames names(module);
    Crossings crossings = findCrossings(module, names);
    // 3. One program per rank, or per group of ranks that are each other's replicas.
    OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
    for (auto &[ranks, stages] : stagesOfRanks)
      addProgram(builder, ranks, stages, symbols, crossings, names);
    // 4. The graph is gone.
    for (Operation &op : llvm::make_early_inc_range(module.getOps()))
      if (isa<func::FuncOp, MemoryOp>(op))
        op.erase();
  }

  std::map<std::vector<int>, std::vector<int>> placeStages() {
    int64_t stages = 0;
    for (func::FuncOp function : {train, evaluate})
      if (function)
        for (UnitOp unit : function.getOps<UnitOp>()) {
          if (!unit.getStage())
            throw Error("unit '" + unit.getName().str() +
                        "' has no stage; run assign-stages first");
          stages = std::max<int64_t>(stages, *unit.getStage() + 1);
        }
    if (stages == 0)
      throw Error("@train and @evaluate have no units; run form-units first");
    if (plan)
      stages = std::max<int64_t>(stages, plan->stages.size());
    std::map<std::vector<int>, std::vector<int>> stagesOfRanks;
    std::vector<std::vector<int>> ranks = ranksOfStages(plan.get(), static_cast<int>(stages));
    for (int stage = 0; stage < stages; ++stage)
      stagesOfRanks[ranks[stage]].push_back(stage);
    return stagesOfRanks;
  }

  /// `rank_2`, or `ranks_2_to_4` of replicas.
  static std::string nameOf(const std::vector<int> &ranks) {
    if (ranks.size() == 1)
      return "rank_" + std::to_string(ranks[0]);
    return "ranks_" + std::to_string(ranks.front()) + "_to_" + std::to_string(ranks.back());
  }

  void addProgram(OpBuilder &builder, const std::vector<int> &ranks, const std::vector<int> &stages,
                  const SymbolTable &symbols, const Crossings &crossings, MemoryNames &names) {
    Location loc = getOperation().getLoc();
    SmallVector<int64_t> numbers(ranks.begin(), ranks.end());
    auto program =
        builder.create<ProgramOp>(loc, nameOf(ranks), builder.getDenseI64ArrayAttr(numbers),
                                  IntegerAttr(), IntegerAttr(), ArrayAttr());
    program.getBody().emplaceBlock();
    OpBuilder inside = OpBuilder::atBlockEnd(&program.getBody().front());
    llvm::DenseSet<StringAttr> added;
    for (int stage : stages) {
      auto op = inside.create<StageOp>(loc, stage, DenseI64ArrayAttr(), IntegerAttr());
      op.getBody().emplaceBlock();
      std::string prefix = "stage_" + std::to_string(stage) + "/";
      StageOutliner outliner(stage, stages.size() > 1 ? prefix : "", symbols, crossings, names);
      outliner.outline(op, train, evaluate);
      addMemories(op, outliner, added);
    }
    // A program adds to a gradient, or it reads what another one has summed.
    llvm::DenseSet<StringAttr> summed;
    program.walk([&](AccumulateOp sum) { summed.insert(sum.getMemoryAttr().getAttr()); });
    for (auto memory : program.getOps<MemoryOp>())
      if (memory.getRole() == Role::Gradient && !summed.contains(memory.getSymNameAttr()))
        memory.setRole(Role::Gathered);
  }

  /// The model's memories in the order of the module, then what staging adds. Stages of a rank
  /// share what does not change with the microbatch. `added`: the names that the program has.
  void addMemories(StageOp stage, const StageOutliner &outliner,
                   llvm::DenseSet<StringAttr> &added) {
    OpBuilder builder(stage);
    for (auto memory : getOperation().getOps<MemoryOp>()) {
      StringAttr name = outliner.nameHere(memory);
      if (!outliner.touched().contains(memory.getSymNameAttr()) || !added.insert(name).second)
        continue;
      auto copy = cast<MemoryOp>(builder.clone(*memory));
      if (name != memory.getSymNameAttr())
        copy->setAttr(kTensorNameAttribute, memory.getSymNameAttr());
      copy.setSymNameAttr(name);
    }
    for (const NewMemory &memory : outliner.added()) {
      ArrayAttr transfers =
          memory.transfers.empty() ? ArrayAttr() : builder.getArrayAttr(memory.transfers);
      auto op = builder.create<MemoryOp>(stage.getLoc(), memory.name, memory.role, Rate::Microbatch,
                                         cast<mlir::TensorType>(memory.type), mlir::Attribute(),
                                         IntegerAttr(), HomeAttr(), transfers, StringAttr());
      added.insert(op.getSymNameAttr());
    }
  }

  std::shared_ptr<const Plan> plan;
  func::FuncOp train, evaluate;
};

} // namespace

std::unique_ptr<Pass> createOutlinePrograms(std::shared_ptr<const Plan> plan) {
  return std::make_unique<OutlinePrograms>(std::move(plan));
}

} // namespace pdc
