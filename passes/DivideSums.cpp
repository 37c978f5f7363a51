#include "passes/Passes.h"
#include "passes/PlanChoice.h"
#include "passes/Refusal.h"
#include "passes/SumUnit.h"
#include "passes/Values.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"

#include <map>

namespace pdc {
#define GEN_PASS_DEF_DIVIDESUMS
#include "passes/Passes.h.inc"
} // namespace pdc

using namespace mlir;
using namespace pdc::ir;

namespace pdc {
namespace {

struct DivideSums : impl::DivideSumsBase<DivideSums> {
  using DivideSumsBase::DivideSumsBase;
  explicit DivideSums(std::shared_ptr<const Plan> plan) : plan(std::move(plan)) {}

  void runOnOperation() override {
    auto body = [&] {
      plan = choosePlan(plan, planFile);
      if (auto train = getOperation().lookupSymbol<func::FuncOp>("train"))
        divide(train);
      return success();
    };
    if (failed(runChecked(getOperation(), body)))
      signalPassFailure();
  }

private:
  /// What adds to a gradient, by stage.
  using Additions = std::map<uint64_t, SmallVector<AccumulateOp>>;

  void divide(func::FuncOp train) {
    SymbolTable symbols(getOperation());
    llvm::MapVector<MemoryOp, Additions> sums;
    for (auto addition : train.getOps<AccumulateOp>()) {
      auto sum = symbols.lookup<MemoryOp>(addition.getMemory());
      if (auto maker = addition.getValue().getDefiningOp<UnitOp>();
          maker && maker.getStage() && sum.getRole() == Role::Gradient)
        sums[sum][*maker.getStage()].push_back(addition);
    }
    llvm::DenseMap<StringAttr, SmallVector<ReadOp, 1>> reads;
    for (auto read : train.getOps<ReadOp>())
      reads[read.getMemoryAttr().getAttr()].push_back(read);
    NodeNames names(train);
    for (auto &[sum, additions] : sums) {
      if (additions.size() < 2)
        continue;
      const SmallVector<MemoryOp> added = addSums(sum, additions, symbols);
      for (ReadOp read : reads.lookup(sum.getSymNameAttr()))
        readAll(read, added, names);
    }
  }

  /// One of each stage but the first.
  static SmallVector<MemoryOp> addSums(MemoryOp sum, const Additions &additions,
                                       SymbolTable &symbols) {
    SmallVector<MemoryOp> added;
    OpBuilder builder(sum->getContext());
    builder.setInsertionPointAfter(sum);
    for (const auto &[stage, ofStage] : llvm::drop_begin(additions)) {
      const std::string name = gradientName(sum.getSymName().rsplit('/').first, added.size() + 1);
      added.push_back(createMemory(symbols, builder, sum.getLoc(), name, Role::Gradient,
                                   Rate::Update, sum.getType()));
      builder.setInsertionPointAfter(added.back());
      for (AccumulateOp addition : ofStage)
        addition.setMemory(name);
    }
    return added;
  }

  /// The update reads the sum of all stages'.
  void readAll(ReadOp read, ArrayRef<MemoryOp> added, NodeNames &names) {
    if (read->use_empty())
      return;
    auto reader = cast<UnitOp>(*read->user_begin());
    OpBuilder builder(read->getContext());
    builder.setInsertionPointAfter(read);
    SmallVector<Value> terms{read};
    for (MemoryOp sum : added)
      terms.push_back(builder.create<ReadOp>(sum.getLoc(), sum.getType(), sum.getSymName()));
    UnitOp all = createSum(builder, read.getLoc(), names.unique(read.getMemory() + "/sum"),
                           {reader.getOrigin(), reader.getPhase(), reader.getRate()}, terms,
                           deviceOf(plan.get()));
    all.setStage(*reader.getStage());
    read.getValue().replaceAllUsesExcept(all.getResult(0), all);
  }

  std::shared_ptr<const Plan> plan;
};

} // namespace

std::unique_ptr<Pass> createDivideSums(std::shared_ptr<const Plan> plan) {
  return std::make_unique<DivideSums>(std::move(plan));
}

} // namespace pdc
