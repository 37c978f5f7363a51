#include "passes/Passes.h"
#include "passes/Refusal.h"
#include "passes/Values.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <map>

namespace pdc {
#define GEN_PASS_DEF_INSERTCUTS
#include "passes/Passes.h.inc"
} // namespace pdc

using namespace mlir;
using namespace pdc::ir;

namespace pdc {
namespace {

struct InsertCuts : impl::InsertCutsBase<InsertCuts> {
  void runOnOperation() override {
    auto body = [&] {
      for (auto function : getOperation().getOps<func::FuncOp>())
        for (UnitOp unit : llvm::to_vector(function.getOps<UnitOp>()))
          if (failed(cutResults(unit)))
            return failure();
      return success();
    };
    if (failed(runChecked(getOperation(), body)))
      signalPassFailure();
  }

private:
  static LogicalResult cutResults(UnitOp unit) {
    if (!unit.getStage())
      return unit.emitError() << "unit '" << unit.getName()
                              << "' has no stage; run assign-stages first";
    for (Value result : unit.getResults())
      if (failed(cut(unit, result)))
        return failure();
    return success();
  }

  /// One cut per destination, straight from the producer, in order of the stages.
  static LogicalResult cut(UnitOp unit, Value result) {
    std::map<int64_t, SmallVector<OpOperand *>> destinations;
    for (OpOperand &use : result.getUses()) {
      auto reader = dyn_cast<UnitOp>(use.getOwner());
      if (!reader)
        continue;
      if (!reader.getStage())
        return reader.emitError() << "unit '" << reader.getName()
                                  << "' has no stage; run assign-stages first";
      if (*reader.getStage() != *unit.getStage())
        destinations[*reader.getStage()].push_back(&use);
    }
    if (!destinations.empty() && unit.getRate() != Rate::Microbatch)
      return unit.emitError() << "'" << tensorName(result) << "' of rate "
                              << stringifyRate(unit.getRate()) << " is used in stage "
                              << destinations.begin()->first << " but made in stage "
                              << *unit.getStage()
                              << "; only values of rate microbatch cross stages";
    OpBuilder builder(unit);
    builder.setInsertionPointAfter(unit);
    for (auto &[stage, uses] : destinations) {
      auto crossed =
          builder.create<CutOp>(unit.getLoc(), result.getType(), result, *unit.getStage(), stage);
      builder.setInsertionPointAfter(crossed);
      for (OpOperand *use : uses)
        use->set(crossed.getResult());
    }
    return success();
  }
};

} // namespace
} // namespace pdc
