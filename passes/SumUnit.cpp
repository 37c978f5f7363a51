#include "passes/SumUnit.h"

#include "passes/LayoutChanges.h"
#include "passes/UnitFacts.h"

using namespace mlir;
using namespace pdc::ir;

namespace pdc {

DeviceOptions deviceOf(const Plan *plan) {
  DeviceOptions device;
  if (plan && !plan->device.empty()) {
    device.kind = deviceKind(plan->device);
    device.precision = plan->precision;
  }
  return device;
}

UnitOp createSum(OpBuilder &builder, Location location, StringRef name, const UnitPlace &place,
                 ValueRange terms, const DeviceOptions &device) {
  UnitOp unit = createUnit(builder, location, name, place, terms.front().getType(), terms);
  Block &body = unit.getBody().front();
  for (Value term : terms)
    body.addArgument(term.getType(), location);
  OpBuilder inside = OpBuilder::atBlockEnd(&body);
  NodeOp node = createNode(inside, location, "Sum", name, body.getArguments(), {});
  node.setPhase(place.phase);
  node.setRate(place.rate);
  inside.create<YieldOp>(location, node.getResults());
  applyChoice(unit, chooseKernel(UnitFacts(unit).view(), device));
  return unit;
}

} // namespace pdc
