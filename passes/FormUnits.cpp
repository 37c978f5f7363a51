#include "passes/Passes.h"
#include "passes/Refusal.h"
#include "passes/UnitGroups.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"

namespace pdc {
#define GEN_PASS_DEF_FORMUNITS
#include "passes/Passes.h.inc"
} // namespace pdc

using namespace mlir;
using namespace pdc;
using namespace pdc::ir;

namespace {

/// Values that nodes of the group read from outside, in order of first use. Constants go inside.
SmallVector<Value> operandsOf(const Group &group) {
  llvm::SetVector<Value> operands;
  for (NodeOp node : group.nodes)
    for (Value operand : node.getOperands()) {
      Operation *definition = operand.getDefiningOp();
      if (!isConstant(definition) && !isa<AbsentOp>(definition) &&
          !llvm::is_contained(group.nodes, definition))
        operands.insert(operand);
    }
  return operands.takeVector();
}

/// Results of its nodes that are read outside.
SmallVector<Value> resultsOf(const Group &group) {
  SmallVector<Value> results;
  for (NodeOp node : group.nodes)
    for (Value result : node.getResults())
      if (llvm::any_of(result.getUsers(),
                       [&](Operation *user) { return !llvm::is_contained(group.nodes, user); }))
        results.push_back(result);
  return results;
}

Location locationOf(const Group &group) {
  SmallVector<Location> locations;
  for (NodeOp node : group.nodes)
    locations.push_back(node.getLoc());
  return FusedLoc::get(locations.front().getContext(), locations);
}

/// Copies the nodes, with the constants they read, into the unit's body.
void fillBody(UnitOp unit, const Group &group, ArrayRef<Value> operands, ArrayRef<Value> results) {
  Block &body = unit.getBody().front();
  IRMapping mapping;
  for (Value operand : operands)
    mapping.map(operand, body.addArgument(operand.getType(), operand.getLoc()));
  OpBuilder builder = OpBuilder::atBlockEnd(&body);
  for (NodeOp node : group.nodes) {
    for (Value operand : node.getOperands())
      if (!mapping.contains(operand))
        builder.clone(*operand.getDefiningOp(), mapping);
    builder.clone(*node, mapping);
  }
  SmallVector<Value> yielded;
  for (Value result : results)
    yielded.push_back(mapping.lookup(result));
  builder.create<YieldOp>(unit.getLoc(), yielded);
}

/// After Operation::moveAfter a block numbers all of its operations anew to tell which of two comes
/// first; of what is taken out and put in again it numbers that alone.
void moveAfter(Operation *op, Operation *place) {
  op->remove();
  place->getBlock()->getOperations().insertAfter(place->getIterator(), op);
}

/// The unit stands where the group's last node stood; what reads its other results follows it.
void makeUnit(const Group &group) {
  SmallVector<Value> operands = operandsOf(group), results = resultsOf(group);
  OpBuilder builder(group.nodes.back());
  builder.setInsertionPointAfter(group.nodes.back());
  UnitOp unit =
      createUnit(builder, locationOf(group), group.name, {group.origin, group.phase, group.rate},
                 TypeRange(ValueRange(results)), operands);
  fillBody(unit, group, operands, results);

  Operation *last = unit;
  for (auto [old, result] : llvm::zip(results, unit.getResults())) {
    for (Operation *user : llvm::to_vector(old.getUsers()))
      if (isa<WriteOp, AccumulateOp>(user) && user->isBeforeInBlock(unit)) {
        moveAfter(user, last);
        last = user;
      }
    old.replaceAllUsesWith(result);
  }
  for (NodeOp node : llvm::reverse(group.nodes))
    node.erase();
}

struct FormUnits : pdc::impl::FormUnitsBase<FormUnits> {
  using FormUnitsBase::FormUnitsBase;

  LogicalResult form(func::FuncOp function, UnitOrigins &origins, const DeviceOptions &options) {
    UnitGroups groups(function, origins, options);
    if (failed(groups.form()))
      return failure();
    for (const Group &group : groups.inOrder())
      makeUnit(group);
    for (Operation &op : llvm::make_early_inc_range(function.getBody().front()))
      if ((isConstant(&op) || isa<AbsentOp>(op)) && op.use_empty())
        op.erase();
    return success();
  }

  void runOnOperation() override {
    if (failed(runChecked(getOperation(), [&] { return run(); })))
      signalPassFailure();
  }

  /// @train first: the units of @evaluate are planned with those of the same nodes in @train.
  LogicalResult run() {
    DeviceOptions options{exact, static_cast<int>(threads), static_cast<int>(vectorWidth),
                          deviceKind(device), precisionNamed(precision)};
    UnitOrigins origins;
    for (StringRef name : {"train", "evaluate"})
      if (auto function = getOperation().lookupSymbol<func::FuncOp>(name))
        if (failed(form(function, origins, options)))
          return failure();
    return success();
  }
};

} // namespace
