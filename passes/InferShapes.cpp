#include "passes/Nodes.h"
#include "passes/Passes.h"
#include "passes/Refusal.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <cmath>

namespace pdc {
#define GEN_PASS_DEF_INFERSHAPES
#include "passes/Passes.h.inc"
} // namespace pdc

using namespace mlir;
using namespace pdc;
using namespace pdc::ir;

namespace {

/// Larger values stay computed: shapes, axes and masks are smaller, weights are not.
constexpr int64_t kLargestEvaluated = 1 << 22;

/// Whether the node's value is known now: it depends on constants, or on a shape alone.
bool isKnown(const NodeFacts &facts, ArrayRef<pdc::TensorType> outputs) {
  if (!facts.rules().evaluate)
    return false;
  if (llvm::any_of(outputs, [](const pdc::TensorType &type) {
        return type.elementCount() > kLargestEvaluated;
      }))
    return false;
  return facts.hasOnlyConstants() || facts.rules().name == "Shape" || facts.rules().name == "Size";
}

/// Puts one Constant node per result in the node's place.
void replaceByConstants(NodeOp node, ArrayRef<Tensor> values, NodeNames &names) {
  OpBuilder builder(node);
  for (auto [i, result] : llvm::enumerate(node.getResults())) {
    std::string name = i == 0 ? node.getName().str() : names.unique(node.getName());
    NodeOp constant =
        createNode(builder, node.getLoc(), "Constant", name, {}, {{"value", values[i]}});
    result.replaceAllUsesWith(constant.getResult(0));
  }
  node.erase();
}

/// Values are doubles: integers beyond 2^53 may have lost bits, those that mean "to the end" aside.
void checkExact(NodeOp node, const Tensor &value) {
  if (value.type.element != ElementType::i64)
    return;
  for (double element : value.data)
    if (std::abs(element) > 0x1p53 && std::abs(element) < 0x1p63)
      throw Error("node '" + node.getName().str() + "' makes the integer " +
                  std::to_string(toInteger(element)) +
                  " at compile time, expected at most 9007199254740992 (2^53)");
}

void inferNode(NodeOp node, NodeNames &names) {
  NodeFacts facts(node);
  std::vector<pdc::TensorType> outputs = facts.infer();
  for (auto [result, type] : llvm::zip(node.getResults(), outputs))
    result.setType(toMlir(node.getContext(), type));
  if (isConstant(node) || node.getNumResults() == 0 || !isKnown(facts, outputs))
    return;
  std::vector<Tensor> values = facts.evaluate();
  for (const Tensor &value : values)
    checkExact(node, value);
  replaceByConstants(node, values, names);
}

LogicalResult inferFunction(func::FuncOp function) {
  NodeNames names(function);
  for (Operation &op : llvm::make_early_inc_range(function.getBody().front())) {
    auto node = dyn_cast<NodeOp>(op);
    if (!node)
      continue;
    if (!refuseAt(node, [&] { inferNode(node, names); }))
      return failure();
  }
  return success();
}

/// What a memory sums has its type; a loss is one number.
LogicalResult checkSums(func::FuncOp function, SymbolTable &memories) {
  for (auto sum : function.getOps<AccumulateOp>()) {
    auto memory = memories.lookup<MemoryOp>(sum.getMemory());
    pdc::TensorType expected = toTensorType(memory.getType());
    pdc::TensorType found = toTensorType(sum.getValue().getType());
    if (found == expected)
      continue;
    bool isLoss = sum.getMemory() == "pdc.loss" || sum.getMemory() == "pdc.evaluation_loss";
    if (isLoss)
      return sum.emitError() << "the loss must be a scalar: expected " << expected.toString()
                             << ", found " << found.toString()
                             << "; choose a scalar output or a loss that makes one of it";
    return sum.emitError() << "memory '" << sum.getMemory() << "' sums " << expected.toString()
                           << ", but is given " << found.toString();
  }
  return success();
}

struct InferShapes : pdc::impl::InferShapesBase<InferShapes> {
  void runOnOperation() override {
    SymbolTable memories(getOperation());
    auto body = [&] {
      for (auto function : getOperation().getOps<func::FuncOp>())
        if (failed(inferFunction(function)) || failed(checkSums(function, memories)))
          return failure();
      return success();
    };
    if (failed(runChecked(getOperation(), body)))
      signalPassFailure();
  }
};

} // namespace
