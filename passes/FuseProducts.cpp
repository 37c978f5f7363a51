#include "passes/Passes.h"
#include "passes/Refusal.h"
#include "passes/Values.h"

#include "compiler/devices/FusedProducts.h"
#include "passes/Nodes.h"

#include "mlir/IR/IRMapping.h"

#include <optional>

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
  NodeOp found;
  for (auto node : unit.getBody().getOps<NodeOp>()) {
    if (isConstant(node))
      continue;
    if (found)
      return {};
    found = node;
  }
  return found;
}

/// The unit's operand that a node in it reads; null for what is made in the unit.
Value operandBehind(UnitOp unit, Value read) {
  auto argument = dyn_cast<BlockArgument>(read);
  return argument ? unit.getOperand(argument.getArgNumber()) : Value();
}

UnitKernel kernelOf(UnitOp unit) {
  KernelAttr kernel = *unit.getKernel();
  return {kernel.getName().str(), toAttributes(kernel.getFields()), kernel.getWorkspace(),
          kernel.getAccumulates()};
}

bool isProduct(UnitOp unit) {
  return unit && unit.getKernel() && unit.getKernel()->getName() == "MatrixProduct" &&
         unit.getNumOperands() >= 2 && unit.getNumResults() == 1;
}

/// What a view shows under another shape.
Value behindViews(Value value) {
  while (isView(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  return value;
}

/// The sum over microbatches that a unit's only result goes into; null where it goes elsewhere.
AccumulateOp sumOf(UnitOp unit) {
  if (unit.getNumResults() != 1 || !unit.getResult(0).hasOneUse())
    return {};
  return dyn_cast<AccumulateOp>(*unit.getResult(0).user_begin());
}

double numberOf(std::optional<APFloat> number) { return number ? number->convertToDouble() : 0; }

/// A unit that is to take the place of two.
class FusedUnit {
public:
  FusedUnit(UnitOp first, UnitOp second, Operation *place, ArrayRef<Value> operands,
            TypeRange results)
      : builder(place) {
    builder.setInsertionPointAfter(place);
    unit = createUnit(builder, builder.getFusedLoc({first.getLoc(), second.getLoc()}),
                      (first.getName() + "+" + second.getName()).str(),
                      {second.getOrigin(), second.getPhase(), second.getRate()}, results, operands);
    Block &body = unit.getBody().front();
    for (Value operand : operands)
      known.map(operand, body.addArgument(operand.getType(), operand.getLoc()));
    builder.setInsertionPointToEnd(&body);
    auto sum = [&](std::optional<APFloat> a, std::optional<APFloat> b) {
      return builder.getF64FloatAttr(numberOf(a) + numberOf(b));
    };
    unit.setFlopsAttr(sum(first.getFlops(), second.getFlops()));
    unit.setBytesAttr(sum(first.getBytes(), second.getBytes()));
    unit.setSecondsAttr(sum(first.getSeconds(), second.getSeconds()));
    if (auto stage = second.getStageAttr())
      unit.setStageAttr(stage);
  }

  /// The nodes of a unit, whose operands are operands of this one or results of nodes before.
  /// Returns what it yields first.
  Value take(UnitOp part) {
    IRMapping inside;
    for (auto [argument, operand] : llvm::zip(part.getBody().getArguments(), part.getOperands()))
      inside.map(argument, known.lookup(operand));
    for (Operation &op : part.getBody().front().without_terminator())
      builder.clone(op, inside);
    Value made = inside.lookup(part.getBody().front().getTerminator()->getOperand(0));
    known.map(part.getResult(0), made);
    return made;
  }

  UnitOp finish(const UnitKernel &kernel, ValueRange yielded) {
    builder.create<YieldOp>(unit.getLoc(), yielded);
    unit.setKernelAttr(KernelAttr::get(unit.getContext(), kernel.name,
                                       toMlir(unit.getContext(), kernel.fields),
                                       kernel.workspaceBytes, kernel.accumulates, false));
    return unit;
  }

  /// What stands for an operand inside.
  Value inside(Value operand) const { return known.lookup(operand); }
  OpBuilder builder;

private:
  UnitOp unit;
  IRMapping known;
};

/// Puts what the library can compute with a product into the product's unit, in one task.
class ProductFuser {
public:
  explicit ProductFuser(TaskOp task) : task(task) {}

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

  /// The product of this task whose result a node of a unit reads as its first operand.
  UnitOp productBefore(UnitOp unit, NodeOp node) {
    Value read = operandBehind(unit, node.getOperand(0));
    auto product = read ? read.getDefiningOp<UnitOp>() : UnitOp();
    return isProduct(product) && product.getPhase() == unit.getPhase() ? product : UnitOp();
  }

  /// What runs again is fused in neither run, so that both make the same bits: the first one keeps
  /// nothing of what GELU is of.
  void fuseGeluOf(UnitOp gelu, NodeOp node) {
    UnitOp product = productBefore(gelu, node);
    if (!product)
      return;
    Value argument = product.getResult(0);
    const bool isKept = !argument.hasOneUse();
    if (isRecomputed(product) || (!isKept && task.getPhase() != ir::Phase::Evaluate))
      return;
    std::optional<UnitKernel> kernel = fuseGelu(kernelOf(product), isKept);
    if (!kernel)
      return;
    SmallVector<Type> types(gelu.getResultTypes());
    if (isKept)
      types.insert(types.begin(), argument.getType());
    FusedUnit fused(product, gelu, product, llvm::to_vector(product.getOperands()), types);
    SmallVector<Value> yielded{fused.take(product), fused.take(gelu)};
    UnitOp unit = fused.finish(*kernel, ArrayRef(yielded).drop_front(isKept ? 0 : 1));
    gelu.getResult(0).replaceAllUsesWith(unit.getResults().back());
    gelu.erase();
    if (isKept)
      argument.replaceAllUsesWith(unit.getResult(0));
    product.erase();
  }

  void fuseGradientOf(UnitOp gradient, NodeOp node) {
    UnitOp product = productBefore(gradient, node);
    Value argument = operandBehind(gradient, node.getOperand(1));
    if (!product || !argument || !product.getResult(0).hasOneUse())
      return;
    std::optional<UnitKernel> kernel = fuseGeluGradient(kernelOf(product));
    if (!kernel)
      return;
    // Where the argument is there.
    SmallVector<Value> operands(product.getOperands());
    operands.push_back(argument);
    FusedUnit fused(product, gradient, gradient, operands, gradient.getResultTypes());
    fused.take(product);
    Value made = fused.take(gradient);
    gradient.getResult(0).replaceAllUsesWith(fused.finish(*kernel, made).getResult(0));
    gradient.erase();
    product.erase();
  }

  /// With the first product that has what is summed as a factor.
  void fuseSumOf(UnitOp sum, NodeOp node) {
    Value summed = operandBehind(sum, node.getOperand(0));
    if (!summed || !sumOf(sum) || !isConstant(node.getOperand(1).getDefiningOp()))
      return;
    for (auto product : task.getOps<UnitOp>())
      if (isProduct(product) && product.getPhase() == sum.getPhase() && sumOf(product))
        for (size_t factor : {0, 1})
          if (behindViews(product.getOperand(factor)) == behindViews(summed))
            if (auto kernel = fuseColumnSum(kernelOf(product), kernelOf(sum), factor))
              return fuseSum(sum, node, product, factor, *kernel);
  }

  /// Where the later of both stands, with the sums that they go into behind it.
  void fuseSum(UnitOp sum, NodeOp node, UnitOp product, size_t factor, const UnitKernel &kernel) {
    Operation *place = sum->isBeforeInBlock(product) ? product : sum;
    FusedUnit fused(sum, product, place, llvm::to_vector(product.getOperands()),
                    {sum.getResult(0).getType(), product.getResult(0).getType()});
    Value sums = sumOfRows(fused, node, product.getOperand(factor));
    UnitOp unit = fused.finish(kernel, {sums, fused.take(product)});
    Operation *last = unit;
    for (UnitOp part : {sum, product}) {
      Operation *accumulate = sumOf(part);
      accumulate->moveAfter(std::exchange(last, accumulate));
      part.getResult(0).replaceAllUsesWith(unit.getResult(part == sum ? 0 : 1));
      part.erase();
    }
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
};

struct FuseProducts : impl::FuseProductsBase<FuseProducts> {
  void runOnOperation() override {
    if (getOperation()->hasAttr(kMeasuresUnitsAttribute))
      return;
    auto fuse = [&] {
      getOperation().walk([](TaskOp task) { ProductFuser(task).fuse(); });
      return success();
    };
    if (failed(runChecked(getOperation(), fuse)))
      signalPassFailure();
  }
};

} // namespace
} // namespace pdc
