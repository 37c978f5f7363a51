#include "passes/Nodes.h"
#include "passes/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseSet.h"

namespace pdc {
#define GEN_PASS_DEF_MERGEUNITS
#include "passes/Passes.h.inc"
} // namespace pdc

using namespace mlir;
using namespace pdc::ir;

namespace pdc {
namespace {

/// Whether two operations of bodies compute the same, where `same` says which values of one body
/// stand for which of the other.
bool computeSame(Operation &one, Operation &other, const llvm::DenseMap<Value, Value> &same) {
  const bool readSame =
      one.getName() == other.getName() && one.getResultTypes() == other.getResultTypes() &&
      llvm::equal(
          llvm::map_range(one.getOperands(), [&](Value operand) { return same.lookup(operand); }),
          other.getOperands());
  if (auto node = dyn_cast<NodeOp>(one); node && readSame)
    return node.getOp() == cast<NodeOp>(other).getOp() &&
           node.getOnnxAttributes() == cast<NodeOp>(other).getOnnxAttributes();
  return readSame && isa<YieldOp, AbsentOp>(one);
}

bool haveSameBody(UnitOp one, UnitOp other) {
  Block &first = one.getBody().front(), &second = other.getBody().front();
  if (first.getOperations().size() != second.getOperations().size())
    return false;
  llvm::DenseMap<Value, Value> same;
  for (auto [a, b] : llvm::zip_equal(first.getArguments(), second.getArguments()))
    same[a] = b;
  for (auto [a, b] : llvm::zip_equal(first, second)) {
    if (!computeSame(a, b, same))
      return false;
    for (auto [x, y] : llvm::zip_equal(a.getResults(), b.getResults()))
      same[x] = y;
  }
  return true;
}

/// Units that differ by names alone are one key.
struct EqualUnits : llvm::DenseMapInfo<Operation *> {
  static unsigned getHashValue(Operation *op) {
    auto unit = cast<UnitOp>(op);
    return llvm::hash_combine(withoutName(unit.getKernelAttr()), unit.getPhase(),
                              unit.getStageAttr(),
                              llvm::hash_combine_range(unit->operand_begin(), unit->operand_end()),
                              unit.getBody().front().getOperations().size());
  }
  static bool isEqual(Operation *left, Operation *right) {
    const auto *empty = getEmptyKey(), *tombstone = getTombstoneKey();
    if (left == right || left == empty || left == tombstone || right == empty || right == tombstone)
      return left == right;
    auto one = cast<UnitOp>(left), other = cast<UnitOp>(right);
    return one.getStageAttr() == other.getStageAttr() && one.getPhase() == other.getPhase() &&
           one.getRate() == other.getRate() &&
           withoutName(one.getKernelAttr()) == withoutName(other.getKernelAttr()) &&
           one.getOperands() == other.getOperands() &&
           one.getResultTypes() == other.getResultTypes() && haveSameBody(one, other);
  }
};

/// Whether what it makes stays among the units of its stage.
bool staysInStage(UnitOp unit) {
  return llvm::all_of(unit->getUsers(), [&](Operation *user) {
    auto reader = dyn_cast<UnitOp>(user);
    return reader && reader.getStageAttr() == unit.getStageAttr();
  });
}

struct MergeUnits : impl::MergeUnitsBase<MergeUnits> {
  void runOnOperation() override {
    if (getOperation()->hasAttr(kMeasuresUnitsAttribute))
      return;
    for (auto function : getOperation().getOps<func::FuncOp>())
      mergeIn(function);
  }

private:
  static void mergeIn(func::FuncOp function) {
    llvm::DenseSet<Operation *, EqualUnits> known;
    for (UnitOp unit : llvm::make_early_inc_range(function.getOps<UnitOp>())) {
      auto [found, isNew] = known.insert(unit);
      if (isNew || !staysInStage(unit))
        continue;
      unit->replaceAllUsesWith((*found)->getResults());
      unit.erase();
    }
  }
};

} // namespace
} // namespace pdc
