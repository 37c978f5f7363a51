#include "passes/FusedUnit.h"
#include "passes/LayoutChanges.h"
#include "passes/Nodes.h"
#include "passes/Passes.h"
#include "passes/Values.h"

#include "compiler/devices/FusedProducts.h"

#include "llvm/ADT/DenseSet.h"

#include <optional>
#include <utility>

namespace pdc {
#define GEN_PASS_DEF_FUSEPRODUCTS
#include "passes/Passes.h.inc"
} // namespace pdc

using namespace mlir;
using namespace pdc::ir;

namespace pdc {
namespace {

/// The only node of a unit that computes something; null where there are several.
NodeOp onlyNode(UnitOp unit) {
  const SmallVector<NodeOp> nodes = computingNodes(unit);
  return nodes.size() == 1 ? nodes.front() : NodeOp();
}

bool isProduct(UnitOp unit) {
  return unit && unit.getKernel() && unit.getKernel()->getName() == "MatrixProduct" &&
         unit.getNumOperands() >= 2 && unit.getNumResults() == 1;
}

/// By name.
using UnitNames = llvm::DenseSet<StringRef>;

/// The units of a stage that run again in its backward task.
UnitNames repeatedUnits(StageOp stage) {
  UnitNames names;
  stage.walk([&](UnitOp unit) {
    if (isRecomputed(unit))
      names.insert(unit.getName());
  });
  return names;
}

/// Puts what the library can compute with a product into the product's unit, in one task.
class ProductFuser {
public:
  /// `repeated`: of its stage.
  ProductFuser(TaskOp task, const UnitNames &repeated) : task(task), repeated(repeated) {}

  void fuse() {
    // Of units that are no products themselves, since those are erased.
    SmallVector<std::pair<UnitOp, NodeOp>> candidates;
    for (auto unit : task.getOps<UnitOp>())
      if (NodeOp node = unit.getKernel() && !isProduct(unit) ? onlyNode(unit) : NodeOp())
        if (unit.getNumResults() == 1)
          candidates.push_back({unit, node});
    for (auto [unit, node] : candidates)
      fuseAt(unit, node);
  }

private:
  void fuseAt(UnitOp unit, NodeOp node) {
    auto is = [&](StringRef kernel, StringRef op, size_t operands) {
      return unit.getKernel()->getName() == kernel && node.getOp() == op &&
             unit.getNumOperands() == operands;
    };
    if (is("Elementwise", "FastGelu", 1) && node->getNumOperands() == 1)
      fuseGeluOf(unit, node);
    else if (is("Elementwise", "FastGeluGrad", 2) && node->getNumOperands() == 2)
      fuseGradientOf(unit, node);
    else if (is("ColumnSum", "ReduceSum", 1) && node->getNumOperands() == 2)
      fuseSumOf(unit, node);
  }

  /// A product of this task and the views through which a unit reads its result.
  struct Viewed {
    UnitOp product;
    SmallVector<UnitOp> views; ///< the first shows the result, the last is what is read

    /// Whether others read the result.
    bool isShared() const {
      auto isRead = [](UnitOp unit) { return !unit.getResult(0).hasOneUse(); };
      return isRead(product) || llvm::any_of(views, isRead);
    }
    void eraseUnread() {
      for (UnitOp view : llvm::reverse(views))
        if (view.use_empty())
          view.erase();
    }
  };

  /// The product is null where a node of the unit reads something else as its first operand.
  static Viewed productBefore(UnitOp unit, NodeOp node) {
    Viewed found;
    Value read = operandBehind(unit, node.getOperand(0));
    // Not a transposition that a layout spares: what the unit makes would lie in another order.
    auto isPlainView = [](Operation *op) {
      return isView(op) && op->getNumOperands() == 1 &&
             isViewNode(computingNodes(cast<UnitOp>(op)).front());
    };
    for (; read && isPlainView(read.getDefiningOp()); read = read.getDefiningOp()->getOperand(0))
      found.views.insert(found.views.begin(), cast<UnitOp>(read.getDefiningOp()));
    auto product = read ? read.getDefiningOp<UnitOp>() : UnitOp();
    if (isProduct(product) && product.getPhase() == unit.getPhase())
      found.product = product;
    return found;
  }

  /// What runs again is fused in neither run, so that both make the same bits, whatever each of
  /// them keeps.
  void fuseGeluOf(UnitOp gelu, NodeOp node) {
    Viewed argument = productBefore(gelu, node);
    UnitOp product = argument.product;
    auto isRepeated = [&](UnitOp unit) { return repeated.contains(unit.getName()); };
    if (!product ||
        (task.getPhase() != ir::Phase::Evaluate && (isRepeated(product) || isRepeated(gelu))))
      return;
    const bool isKept = argument.isShared();
    std::optional<KernelChoice> kernel = fuseGelu(choiceOf(product), isKept);
    if (!kernel)
      return;
    UnitOp unit = fuseWithReader(product, argument.views, gelu, product,
                                 llvm::to_vector(product.getOperands()), isKept);
    applyChoice(unit, *kernel);
    argument.eraseUnread();
    product.erase();
  }

  /// Where the argument of GELU is there.
  void fuseGradientOf(UnitOp gradient, NodeOp node) {
    Viewed factor = productBefore(gradient, node);
    Value argument = operandBehind(gradient, node.getOperand(1));
    if (!factor.product || !argument || node.getOperand(0) == node.getOperand(1) ||
        factor.isShared())
      return;
    UnitOp product = factor.product;
    std::optional<KernelChoice> kernel = fuseGeluGradient(choiceOf(product));
    if (!kernel)
      return;
    SmallVector<Value> operands(product.getOperands());
    operands.push_back(argument);
    UnitOp unit = fuseWithReader(product, factor.views, gradient, gradient, operands, false);
    applyChoice(unit, *kernel);
    factor.eraseUnread();
    product.erase();
  }

  /// With the first product that has what is summed as a factor.
  void fuseSumOf(UnitOp sum, NodeOp node) {
    Value summed = operandBehind(sum, node.getOperand(0));
    auto type = dyn_cast<RankedTensorType>(sum.getResult(0).getType());
    if (!summed || !type || type.getRank() != 1 || !sumOf(sum) ||
        !isConstant(node.getOperand(1).getDefiningOp()))
      return;
    for (auto product : task.getOps<UnitOp>())
      if (isProduct(product) && product.getPhase() == sum.getPhase() && sumOf(product))
        for (size_t factor : {0, 1})
          if (behindViews(product.getOperand(factor)) == behindViews(summed))
            if (auto kernel = fuseColumnSum(choiceOf(product), choiceOf(sum), factor))
              return fuseSum(sum, node, product, factor, *kernel);
  }

  /// Where the later of both stands, with the sums that they go into behind it.
  void fuseSum(UnitOp sum, NodeOp node, UnitOp product, size_t factor, const KernelChoice &kernel) {
    Operation *place = sum->isBeforeInBlock(product) ? product : sum;
    FusedUnit fused(sum, product, place, llvm::to_vector(product.getOperands()),
                    {sum.getResult(0).getType(), product.getResult(0).getType()});
    Value sums = sumOfRows(fused, node, product.getOperand(factor));
    UnitOp unit = fused.finish({sums, fused.take(product).front()});
    applyChoice(unit, kernel);
    replaceSummed(sum, product, unit);
  }

  /// The node's sum, of the factor as the product has it: a matrix.
  static Value sumOfRows(FusedUnit &fused, NodeOp node, Value factor) {
    auto axes = cast<NodeOp>(node.getOperand(1).getDefiningOp());
    auto rows = DenseElementsAttr::get(RankedTensorType::get({1}, fused.builder.getI64Type()),
                                       ArrayRef<int64_t>{0});
    NodeOp constant = createConstant(fused.builder, axes.getLoc(), axes.getName(), rows);
    NodeOp made = createNode(fused.builder, node.getLoc(), node.getOp(), node.getName(),
                             {fused.inside(factor), constant->getResult(0)},
                             toAttributes(node.getOnnxAttributes()), node.getOrigin().value_or(""));
    made->getResult(0).setType(node->getResult(0).getType());
    for (auto [copy, from] : {std::pair(constant, axes), std::pair(made, node)}) {
      copy.setPhaseAttr(from.getPhaseAttr());
      copy.setRateAttr(from.getRateAttr());
    }
    return made->getResult(0);
  }

  TaskOp task;
  const UnitNames &repeated;
};

struct FuseProducts : impl::FuseProductsBase<FuseProducts> {
  void runOnOperation() override {
    auto fuse = [](StageOp stage) {
      const UnitNames repeated = repeatedUnits(stage);
      for (auto task : stage.getOps<TaskOp>())
        ProductFuser(task, repeated).fuse();
    };
    if (failed(fuseInStages(getOperation(), fuse)))
      signalPassFailure();
  }
};

} // namespace
} // namespace pdc
