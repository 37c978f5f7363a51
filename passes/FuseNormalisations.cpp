#include "passes/FusedUnit.h"
#include "passes/Nodes.h"
#include "passes/Passes.h"
#include "passes/Refusal.h"
#include "passes/Values.h"

#include "compiler/devices/Device.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include "llvm/ADT/SetVector.h"

namespace pdc {
#define GEN_PASS_DEF_FUSENORMALISATIONS
#include "passes/Passes.h.inc"
} // namespace pdc

using namespace mlir;
using namespace pdc;
using namespace pdc::ir;

namespace {

using Nodes = SmallVector<NodeOp>;

bool are(const Nodes &nodes, ArrayRef<StringRef> ops) {
  return llvm::equal(nodes, ops, [](NodeOp node, StringRef op) { return node.getOp() == op; });
}

/// The unit's result that is a value inside; null where that is read by nobody outside.
Value resultThatIs(UnitOp unit, Value made) {
  Operation *yield = unit.getBody().front().getTerminator();
  for (auto [result, yielded] : llvm::zip(unit.getResults(), yield->getOperands()))
    if (yielded == made)
      return result;
  return {};
}

/// What stands outside for a value inside.
Value outside(UnitOp unit, Value inside) {
  Value operand = operandBehind(unit, inside);
  return operand ? operand : resultThatIs(unit, inside);
}

/// What makes the gradient that arrives at a normalisation: [Sum +] ReluGrad, of equal types.
bool isArriving(UnitOp unit, Type image) {
  Nodes nodes = computingNodes(unit);
  const bool isSum = are(nodes, {"Sum", "ReluGrad"});
  if (unit.getNumResults() != 1 || !(isSum || are(nodes, {"ReluGrad"})))
    return false;
  NodeOp relu = nodes.back(), first = nodes.front();
  auto isOutside = [&](Value value) {
    return isa<BlockArgument>(value) && value.getType() == image;
  };
  if (relu.getNumOperands() != 2 || !isOutside(relu.getOperand(1)) ||
      resultThatIs(unit, relu->getResult(0)) != unit.getResult(0))
    return false;
  if (!isSum)
    return isOutside(relu.getOperand(0));
  return relu.getOperand(0) == first->getResult(0) &&
         llvm::all_of(first.getOperands(), isOutside) &&
         first.getNumOperands() <= mostArrivingTerms();
}

/// What a unit reads of others is there before `place`.
bool canStandAt(UnitOp unit, UnitOp place) {
  return llvm::all_of(unit.getOperands(), [&](Value operand) {
    Operation *made = operand.getDefiningOp();
    return !made || made == place || made->isBeforeInBlock(place);
  });
}

class NormalisationGradients {
public:
  explicit NormalisationGradients(func::FuncOp function) : function(function), names(function) {}

  void fuse() {
    SmallVector<UnitOp> units(function.getOps<UnitOp>());
    for (UnitOp unit : units) {
      Nodes nodes = computingNodes(unit);
      if (!nodes.empty() && nodes.back().getOp() == "BatchNormalizationGrad" &&
          nodes.back().getNumOperands() == 5)
        recomputeMask(takeArriving(unit, nodes));
    }
  }

private:
  /// Puts what makes the gradient that arrives into the unit, where it is planned with it and
  /// either read by others, too, or a sum: what it makes is written while it is summed.
  UnitOp takeArriving(UnitOp unit, Nodes &nodes) {
    Value arriving = operandBehind(unit, nodes.back().getOperand(0));
    auto maker = arriving ? arriving.getDefiningOp<UnitOp>() : UnitOp();
    if (nodes.size() != 1 || !maker || maker.getOrigin() != unit.getOrigin() ||
        maker.getPhase() != unit.getPhase() || maker.getRate() != unit.getRate() ||
        !isArriving(maker, nodes.back().getOperand(1).getType()) || !canStandAt(unit, maker) ||
        llvm::count(unit.getOperands(), arriving) != 1)
      return unit;
    const bool isKept = !arriving.hasOneUse();
    SetVector<Value> operands;
    operands.insert(maker.getOperands().begin(), maker.getOperands().end());
    for (Value operand : unit.getOperands())
      if (operand != arriving)
        operands.insert(operand);
    UnitOp made = fuseWithReader(maker, {}, unit, maker, operands.getArrayRef(), isKept);
    maker.erase();
    return made;
  }

  /// A relu of nothing but a normalised image passes what its normalisation, computed again, makes
  /// positive: its result need not be read, nor kept where no other reads it.
  void recomputeMask(UnitOp unit) {
    Nodes nodes = computingNodes(unit);
    if (nodes.size() < 2 || nodes[nodes.size() - 2].getOp() != "ReluGrad")
      return;
    NodeOp relu = nodes[nodes.size() - 2], gradient = nodes.back();
    auto mask =
        relu.getNumOperands() == 2 ? dyn_cast<BlockArgument>(relu.getOperand(1)) : BlockArgument();
    if (!mask || !mask.hasOneUse() || gradient.getOperand(0) != relu->getResult(0))
      return;
    Value bias = biasBehind(unit, gradient, unit.getOperand(mask.getArgNumber()));
    if (!bias)
      return;
    unit.setOperand(mask.getArgNumber(), bias);
    mask.setType(bias.getType());
    OpBuilder builder(relu);
    NodeOp image = createNode(builder, relu.getLoc(), "BatchNormApply",
                              names.unique(relu.getName() + "/BatchNormApply"),
                              {gradient.getOperand(1), gradient.getOperand(2), mask,
                               gradient.getOperand(3), gradient.getOperand(4)},
                              {}, relu.getOrigin().value_or(""));
    image.setPhaseAttr(relu.getPhaseAttr());
    image.setRateAttr(relu.getRateAttr());
    relu.setOperand(1, image->getResult(0));
  }

  /// The bias of the normalisation whose gradient the node is, where `y` is a relu of its image and
  /// of nothing else; null elsewhere.
  static Value biasBehind(UnitOp unit, NodeOp gradient, Value y) {
    auto forward = y.getDefiningOp<UnitOp>();
    if (!forward)
      return {};
    for (NodeOp relu : computingNodes(forward)) {
      if (relu.getOp() != "Relu" || relu.getNumOperands() != 1 ||
          resultThatIs(forward, relu->getResult(0)) != y)
        continue;
      auto normalised = relu.getOperand(0).getDefiningOp<NodeOp>();
      if (!normalised || normalised.getOp() != "BatchNormInternal" ||
          normalised.getNumOperands() != 5 || normalised.getNumResults() != 5 ||
          relu.getOperand(0) != normalised->getResult(0))
        return {};
      const Value its[] = {normalised.getOperand(0), normalised.getOperand(1),
                           normalised->getResult(3), normalised->getResult(4)};
      for (size_t i = 0; i < 4; ++i) {
        Value found = outside(forward, its[i]);
        if (!found || found != operandBehind(unit, gradient.getOperand(i + 1)))
          return {};
      }
      return operandBehind(forward, normalised.getOperand(2));
    }
    return {};
  }

  func::FuncOp function;
  NodeNames names;
};

struct FuseNormalisations : pdc::impl::FuseNormalisationsBase<FuseNormalisations> {
  void runOnOperation() override {
    auto fuse = [&] {
      for (auto function : getOperation().getOps<func::FuncOp>())
        NormalisationGradients(function).fuse();
      return success();
    };
    if (failed(runChecked(getOperation(), fuse)))
      signalPassFailure();
  }
};

} // namespace
