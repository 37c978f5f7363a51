#include "passes/Nodes.h"
#include "passes/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"

namespace pdc {
#define GEN_PASS_DEF_PLACECONSTANTS
#include "passes/Passes.h.inc"
} // namespace pdc

using namespace mlir;
using namespace pdc;
using namespace pdc::ir;

namespace {

/// Whether a kernel reads the constant: what rules need at compile time, and single numbers in
/// loops, are part of the unit.
bool isRead(OpOperand &use) {
  auto reader = dyn_cast<NodeOp>(use.getOwner());
  const Operator *rules = reader ? findOperator(reader.getOp()) : nullptr;
  if (!rules || rules->kind == OperatorClass::constant || rules->inputs.empty())
    return false;
  size_t last = rules->inputs.size() - 1;
  if (rules->inputs[std::min<size_t>(use.getOperandNumber(), last)].known)
    return false;
  auto type = cast<RankedTensorType>(use.get().getType());
  return rules->kind != OperatorClass::elementwise || type.getNumElements() != 1;
}

struct PlaceConstants : pdc::impl::PlaceConstantsBase<PlaceConstants> {
  void runOnOperation() override {
    SymbolTable symbols(getOperation());
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      readOf.clear();
      for (auto node : llvm::make_early_inc_range(function.getOps<NodeOp>()))
        if (isConstant(node))
          place(node, symbols);
    }
  }

private:
  void place(NodeOp constant, SymbolTable &symbols) {
    Value value = constant.getResult(0);
    SmallVector<OpOperand *> reads;
    for (OpOperand &use : value.getUses())
      if (isRead(use))
        reads.push_back(&use);
    auto elements = dyn_cast_or_null<DenseElementsAttr>(constant.getOnnxAttributes().get("value"));
    if (reads.empty() || !elements)
      return;
    OpBuilder builder(constant);
    const StringAttr memory = memoryOf(constant, elements, symbols);
    Value &read = readOf[memory];
    if (!read)
      read = builder.create<ReadOp>(constant.getLoc(), value.getType(), memory);
    for (OpOperand *use : reads)
      use->set(read);
  }

  /// Equal constants are one memory.
  StringAttr memoryOf(NodeOp constant, DenseElementsAttr elements, SymbolTable &symbols) {
    StringAttr &name = memories[elements];
    if (name)
      return name;
    OpBuilder outside(constant->getParentOfType<func::FuncOp>());
    MemoryOp memory =
        createMemory(symbols, outside, constant.getLoc(), constant.getName(), Role::Constant,
                     Rate::Once, constant.getResult(0).getType(), elements);
    return name = memory.getSymNameAttr();
  }

  llvm::DenseMap<mlir::Attribute, StringAttr> memories;
  llvm::DenseMap<StringAttr, Value> readOf; ///< in the function, before all that read it
};

} // namespace
