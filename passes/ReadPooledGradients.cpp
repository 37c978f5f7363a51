#include "passes/Composites.h"
#include "passes/Passes.h"
#include "passes/Refusal.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace pdc {
#define GEN_PASS_DEF_READPOOLEDGRADIENTS
#include "passes/Passes.h.inc"
} // namespace pdc

using namespace mlir;
using namespace pdc;
using namespace pdc::ir;

namespace {

/// The pooling whose maxima a gradient goes to; null where it pools something else than `image`.
NodeOp poolingOf(NodeOp gradient, Value image) {
  auto pooling = gradient.getOperand(1).getDefiningOp<NodeOp>();
  return pooling && pooling.getOp() == "MaxPool" && pooling.getOperand(0) == image ? pooling
                                                                                   : NodeOp();
}

/// A relu lets through at a maximum what it lets through of what is pooled there.
void maskBeforePooling(NodeOp relu) {
  NodeOp gradient = maker(relu.getOperand(0), "MaxPoolGrad");
  NodeOp pooling = gradient ? poolingOf(gradient, relu.getOperand(1)) : NodeOp();
  if (!pooling || !gradient->hasOneUse() || !pooling.getOrigin().value_or("").empty())
    return;
  if (isMaskedByNormalisation(relu))
    return;
  OpBuilder builder(gradient);
  NodeOp masked = createNode(builder, relu.getLoc(), relu.getOp(), relu.getName(),
                             {gradient.getOperand(0), pooling->getResult(0)},
                             toAttributes(relu.getOnnxAttributes()), pooling.getName());
  gradient.setOperand(0, masked->getResult(0));
  relu->getResult(0).replaceAllUsesWith(gradient->getResult(0));
  relu.erase();
}

/// Each element of what is pooled goes to one of the image, so their sums over a channel are equal.
void sumBeforePooling(NodeOp bias) {
  if (NodeOp gradient = maker(bias.getOperand(0), "MaxPoolGrad"))
    bias.setOperand(0, gradient.getOperand(0));
}

struct ReadPooledGradients : pdc::impl::ReadPooledGradientsBase<ReadPooledGradients> {
  void runOnOperation() override {
    auto read = [&] {
      auto train = getOperation().lookupSymbol<func::FuncOp>("train");
      if (!train)
        return success();
      for (NodeOp node : llvm::to_vector(train.getOps<NodeOp>()))
        if (node.getOp() == "ReluGrad")
          maskBeforePooling(node);
      for (auto node : train.getOps<NodeOp>())
        if (node.getOp() == "ConvBiasGrad")
          sumBeforePooling(node);
      return success();
    };
    if (failed(runChecked(getOperation(), read)))
      signalPassFailure();
  }
};

} // namespace
