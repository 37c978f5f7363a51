#include "passes/Nodes.h"
#include "passes/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseSet.h"

#include <map>

namespace pdc {
#define GEN_PASS_DEF_MERGECONSTANTS
#include "passes/Passes.h.inc"
} // namespace pdc

using namespace mlir;
using namespace pdc;
using namespace pdc::ir;

namespace {

/// Nodes of one function that depend on constants alone, by what they compute.
class ConstantNodes {
public:
  void merge(func::FuncOp function) {
    for (auto node : llvm::make_early_inc_range(function.getOps<NodeOp>())) {
      if (!isOfConstants(node))
        continue;
      auto [first, isNew] = nodes.try_emplace(keyOf(node), node);
      if (isNew) {
        values.insert(node->result_begin(), node->result_end());
        continue;
      }
      node->replaceAllUsesWith(first->second);
      node.erase();
    }
  }

private:
  /// What MLIR holds once is the same where its address is.
  using Key = std::vector<const void *>;

  /// Constants themselves stay: kernels and rules hold them, and equal ones are one memory.
  bool isOfConstants(NodeOp node) const {
    return !isConstant(node) && node->getNumOperands() > 0 &&
           llvm::all_of(node->getOperands(), [&](Value operand) {
             return isConstant(operand.getDefiningOp()) || values.contains(operand) ||
                    isa_and_nonnull<AbsentOp>(operand.getDefiningOp());
           });
  }

  static Key keyOf(NodeOp node) {
    Key key = {node.getOpAttr().getAsOpaquePointer(), node.getOnnxAttributes().getAsOpaquePointer(),
               node.getOriginAttr() ? node.getOriginAttr().getAsOpaquePointer() : nullptr};
    for (Type type : node->getResultTypes())
      key.push_back(type.getAsOpaquePointer());
    for (Value operand : node->getOperands()) {
      const bool isAbsent = isa<NoneType>(operand.getType());
      DenseElementsAttr elements = elementsOf(operand);
      key.push_back(isAbsent   ? operand.getType().getAsOpaquePointer()
                    : elements ? elements.getAsOpaquePointer()
                               : operand.getAsOpaquePointer());
    }
    return key;
  }

  std::map<Key, NodeOp> nodes;
  llvm::DenseSet<Value> values;
};

struct MergeConstants : pdc::impl::MergeConstantsBase<MergeConstants> {
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>())
      ConstantNodes().merge(function);
  }
};

} // namespace
