#include "passes/FusedUnit.h"
#include "passes/LayoutChanges.h"
#include "passes/Nodes.h"
#include "passes/Passes.h"
#include "passes/Values.h"

#include "compiler/devices/FusedRows.h"

#include <optional>

namespace pdc {
#define GEN_PASS_DEF_FUSEROWS
#include "passes/Passes.h.inc"
} // namespace pdc

using namespace mlir;
using namespace pdc;
using namespace pdc::ir;

namespace {

bool hasKernel(Operation *op, StringRef kernel) {
  auto unit = dyn_cast_or_null<UnitOp>(op);
  return unit && unit.getKernel() && unit.getKernel()->getName() == kernel;
}

/// With the operands and results that a kernel has which adds nothing yet.
bool isPlain(Operation *op, StringRef kernel) {
  if (!hasKernel(op, kernel))
    return false;
  if (kernel == "LayerNormalization")
    return op->getNumOperands() == 3 && op->getNumResults() >= 1 && op->getNumResults() <= 3;
  return op->getNumResults() == 1 &&
         op->getNumOperands() == (kernel == "LayerNormalizationInputGradient" ? 5 : 4);
}

/// A loop that adds tensors of equal types, each once, and does nothing else.
bool isSum(UnitOp unit) {
  if (!hasKernel(unit, "Elementwise") || unit.getNumOperands() < 2 || unit.getNumResults() != 1)
    return false;
  SmallVector<NodeOp> nodes = computingNodes(unit);
  const Type type = unit.getResult(0).getType();
  return nodes.size() == 1 && (nodes[0].getOp() == "Add" || nodes[0].getOp() == "Sum") &&
         llvm::equal(nodes[0].getOperands(), unit.getBody().getArguments()) &&
         llvm::all_of(unit.getOperandTypes(), [&](Type operand) { return operand == type; });
}

/// A loop that computes the gradient of a relu, and nothing else.
bool isReluGradient(UnitOp unit) {
  if (!hasKernel(unit, "Elementwise") || unit.getNumOperands() != 2 || unit.getNumResults() != 1)
    return false;
  SmallVector<NodeOp> nodes = computingNodes(unit);
  const Type type = unit.getResult(0).getType();
  return nodes.size() == 1 && nodes[0].getOp() == "ReluGrad" &&
         nodes[0].getOperand(0) == unit.getBody().getArgument(0) &&
         nodes[0].getOperand(1) == unit.getBody().getArgument(1) &&
         llvm::all_of(unit.getOperandTypes(), [&](Type operand) { return operand == type; });
}

/// Fuses in one task. Of two units the fused one stands where the later stood.
class RowFuser {
public:
  explicit RowFuser(TaskOp task) : task(task) {}

  void fuse() {
    SmallVector<UnitOp> sums, columns;
    for (auto unit : task.getOps<UnitOp>())
      if (isSum(unit))
        sums.push_back(unit);
      else if (hasKernel(unit, "ColumnSum") && sumOf(unit))
        columns.push_back(unit);
    for (UnitOp sum : sums)
      fuseBehindGradient(sum) || fuseBeforeRows(sum) || fuseBeforeGradient(sum);
    for (UnitOp sum : columns)
      fuseWithRelu(sum) || fuseWithScale(sum);
  }

private:
  using Rule = llvm::function_ref<std::optional<KernelChoice>(const KernelChoice &, bool)>;

  bool fuseBeforeRows(UnitOp sum) {
    return sum.getNumOperands() == 2 && fuseBefore(sum, "LayerNormalization", addBefore);
  }

  bool fuseBeforeGradient(UnitOp sum) {
    auto rule = [&](const KernelChoice &gradient, bool isKept) {
      return addArriving(gradient, sum.getNumOperands(), isKept);
    };
    return fuseBefore(sum, "LayerNormalizationInputGradient", rule);
  }

  /// The sum with the one of its two terms that is the gradient of a normalisation's input.
  bool fuseBehindGradient(UnitOp sum) {
    if (sum.getNumOperands() != 2)
      return false;
    for (unsigned term : {0, 1}) {
      auto gradient = sum.getOperand(term).getDefiningOp<UnitOp>();
      if (!hasKernel(gradient, "LayerNormalizationInputGradient") || !areOfOneKind(gradient, sum) ||
          sum.getOperand(term) != gradient.getResults().back() || !sum.getOperand(term).hasOneUse())
        continue;
      Value addend = sum.getOperand(1 - term);
      UnitOp place = placeOf(gradient, addend, sum);
      std::optional<KernelChoice> kernel = addBehind(choiceOf(gradient));
      if (!place || !kernel)
        continue;
      SmallVector<Value> operands(gradient.getOperands());
      operands.push_back(addend);
      applyChoice(fuseWithReader(gradient, {}, sum, place, operands, false), *kernel);
      gradient.erase();
      return true;
    }
    return false;
  }

  /// Where a gradient and the sum behind it may run together; null where nowhere. What arrives,
  /// too, others may read before the sum.
  static UnitOp placeOf(UnitOp gradient, Value addend, UnitOp sum) {
    Operation *made = addend.getDefiningOp();
    if (!made || made->isBeforeInBlock(gradient))
      return gradient;
    return gradient.getNumResults() == 1 && canWaitUntil(gradient, sum) ? sum : UnitOp();
  }

  /// The sum with a normalisation, or a gradient of one, behind which its other readers stand.
  bool fuseBefore(UnitOp sum, StringRef kernelName, Rule rule) {
    for (Operation *user : sum.getResult(0).getUsers()) {
      if (!isPlain(user, kernelName) || user->getBlock() != sum->getBlock() ||
          user->getOperand(0) != sum.getResult(0) || !areOfOneKind(sum, cast<UnitOp>(user)) ||
          llvm::count(user->getOperands(), sum.getResult(0)) != 1)
        continue;
      auto reader = cast<UnitOp>(user);
      const bool isKept = !sum.getResult(0).hasOneUse();
      std::optional<KernelChoice> kernel = rule(choiceOf(reader), isKept);
      if (kernel && waitsFor(sum, reader) && canWaitUntil(sum, reader))
        return fuse(sum, reader, isKept, *kernel), true;
    }
    return false;
  }

  void fuse(UnitOp sum, UnitOp reader, bool isKept, const KernelChoice &kernel) {
    SmallVector<Value> operands(sum.getOperands());
    llvm::append_range(operands, reader.getOperands().drop_front());
    UnitOp unit = fuseWithReader(sum, {}, reader, reader, operands, isKept);
    applyChoice(unit, kernel);
    sum.erase();
    Operation *last = unit;
    for (Operation *user : llvm::to_vector(unit.getResult(0).getUsers()))
      if (user->isBeforeInBlock(unit)) {
        user->moveAfter(last);
        last = user;
      }
  }

  /// Whether the sum may stand where its reader does: what else reads it before is what stores it,
  /// in a memory that nothing between reads.
  bool waitsFor(UnitOp sum, UnitOp reader) {
    return llvm::all_of(sum.getResult(0).getUsers(), [&](Operation *user) {
      if (user == reader || reader->isBeforeInBlock(user))
        return true;
      return isa<WriteOp>(user) && !isUsedBefore(user, reader);
    });
  }

  /// The sum of a relu's gradient, with it.
  bool fuseWithRelu(UnitOp sum) {
    auto relu = sum.getOperand(0).getDefiningOp<UnitOp>();
    if (!relu || relu->getBlock() != sum->getBlock() || !isReluGradient(relu))
      return false;
    std::optional<KernelChoice> kernel = sumRectified(choiceOf(sum));
    if (!kernel || toTensorType(sum.getResult(0).getType()).element != ElementType::f32)
      return false;
    AccumulateOp accumulate = sumOf(sum);
    UnitOp unit = fuseBeside(relu, sum, relu, llvm::to_vector(relu.getOperands()));
    applyChoice(unit, *kernel);
    replace(relu, sum, unit);
    accumulate->moveAfter(unit);
    return true;
  }

  /// The sum of what arrives at a normalisation, with its scale's gradient.
  bool fuseWithScale(UnitOp sum) {
    for (auto gradient : task.getOps<UnitOp>()) {
      if (!isPlain(gradient, "LayerNormalizationScaleGradient") || !sumOf(gradient) ||
          sum.getNumOperands() != 1 || gradient.getOperand(0) != sum.getOperand(0) ||
          !areOfOneKind(gradient, sum))
        continue;
      std::optional<KernelChoice> kernel = sumBias(choiceOf(gradient), choiceOf(sum));
      const bool isSumFirst = sum->isBeforeInBlock(gradient);
      UnitOp place = isSumFirst ? gradient : sum;
      if (!kernel || !canWaitUntil(isSumFirst ? sum : gradient, place))
        continue;
      UnitOp unit = fuseBeside(gradient, sum, place, llvm::to_vector(gradient.getOperands()));
      applyChoice(unit, *kernel);
      replaceSummed(gradient, sum, unit);
      return true;
    }
    return false;
  }

  static bool areOfOneKind(UnitOp a, UnitOp b) {
    return a->getBlock() == b->getBlock() && a.getPhase() == b.getPhase() &&
           a.getRate() == b.getRate();
  }

  TaskOp task;
};

struct FuseRows : pdc::impl::FuseRowsBase<FuseRows> {
  void runOnOperation() override {
    auto fuse = [](StageOp stage) {
      for (auto task : stage.getOps<TaskOp>())
        RowFuser(task).fuse();
    };
    if (failed(fuseInStages(getOperation(), fuse)))
      signalPassFailure();
  }
};

} // namespace
