#include "passes/GradientSums.h"

#include "passes/Values.h"

#include <limits>

using namespace mlir;
using namespace pdc::ir;

namespace pdc {

static constexpr int64_t kNowhere = std::numeric_limits<int64_t>::max();

GradientSums::GradientSums(func::FuncOp function, llvm::function_ref<int64_t(UnitOp)> placeOf) {
  const SmallVector<UnitOp> units(function.getOps<UnitOp>());
  auto isSummed = [&](Operation *user) {
    return isa<AccumulateOp>(user) || feeders.contains(user);
  };
  for (UnitOp unit : llvm::reverse(units))
    if (taskPhase(unit) == ir::Phase::Backward && llvm::all_of(unit->getUsers(), isSummed))
      feeders.insert(unit);
  for (UnitOp unit : units) {
    int64_t &place = places[unit];
    place = placeOf(unit);
    if (feeds(unit) && place >= 0)
      for (Value operand : unit.getOperands())
        place = std::min(place, earliestOf(operand));
  }
}

int64_t GradientSums::earliestOf(Value gradient) const {
  auto maker = gradient.getDefiningOp<UnitOp>();
  if (!maker || taskPhase(maker) != ir::Phase::Backward || places.lookup(maker) < 0)
    return kNowhere;
  if (!isStack(maker))
    return places.lookup(maker);
  int64_t earliest = kNowhere;
  for (Value operand : maker.getOperands())
    earliest = std::min(earliest, earliestOf(operand));
  return earliest;
}

} // namespace pdc
