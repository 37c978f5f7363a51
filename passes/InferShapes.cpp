#include "passes/Nodes.h"
#include "passes/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace pdc {
#define GEN_PASS_DEF_INFERSHAPES
#include "passes/Passes.h.inc"
} // namespace pdc

using namespace mlir;
using namespace pdc;
using namespace pdc::ir;

namespace {

/// Larger values stay computed: shapes, axes and masks are smaller, weights are not.
constexpr int64_t kLargestEvaluated = 1 << 16;

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

void inferNode(NodeOp node, NodeNames &names) {
  NodeFacts facts(node);
  std::vector<pdc::TensorType> outputs = facts.infer();
  for (auto [result, type] : llvm::zip(node.getResults(), outputs))
    result.setType(toMlir(node.getContext(), type));
  if (!isConstant(node) && node.getNumResults() > 0 && isKnown(facts, outputs))
    replaceByConstants(node, facts.evaluate(), names);
}

LogicalResult inferFunction(func::FuncOp function) {
  NodeNames names(function);
  for (Operation &op : llvm::make_early_inc_range(function.getBody().front())) {
    auto node = dyn_cast<NodeOp>(op);
    if (!node)
      continue;
    try {
      inferNode(node, names);
    } catch (const Error &error) {
      return node.emitError() << error.what();
    }
  }
  return success();
}

struct InferShapes : pdc::impl::InferShapesBase<InferShapes> {
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (failed(inferFunction(function)))
        return signalPassFailure();
  }
};

} // namespace
