#include "compiler/ir/Conversion.h"

#include "mlir/IR/PatternMatch.h"

using namespace mlir;
using pdc::ir::NodeOp;

namespace {

/// The operand of a Concat beside which there are no elements; null where there are.
Value onlyOperand(NodeOp concat) {
  Value only;
  for (Value operand : concat.getOperands()) {
    auto type = dyn_cast<RankedTensorType>(operand.getType());
    if (!type || !type.hasStaticShape())
      return {};
    if (type.getNumElements() == 0)
      continue;
    if (only)
      return {};
    only = operand;
  }
  return only && only.getType() == concat.getResult(0).getType() ? only : Value();
}

/// Whether result 0 is operand 0, element for element and under the same type.
bool isIdentity(NodeOp node) {
  if (node.getNumOperands() == 0 || node.getOperand(0).getType() != node.getResult(0).getType() ||
      !isa<RankedTensorType>(node.getResult(0).getType()))
    return false;
  const pdc::Operator *rules = pdc::findOperator(node.getOp());
  // What stops a gradient does that until the gradient is made.
  if (!rules || rules->stopsGradient)
    return false;
  if (rules->kind == pdc::OperatorClass::view || node.getOp() == "Cast" || node.getOp() == "Expand")
    return true;
  if (node.getOp() == "Sum")
    return node.getNumOperands() == 1;
  // Without a key it is ONNX's form, which only @evaluate has.
  auto ratio = dyn_cast_or_null<FloatAttr>(node.getOnnxAttributes().get("ratio"));
  bool isKeyed = static_cast<bool>(node.getOnnxAttributes().get("key"));
  return node.getOp() == "Dropout" && (!isKeyed || (ratio && ratio.getValueAsDouble() == 0));
}

} // namespace

/// Removes nodes that change nothing. Nodes that nobody reads go because they are pure.
LogicalResult NodeOp::canonicalize(NodeOp node, PatternRewriter &rewriter) {
  if (node.getNumResults() == 0)
    return failure();
  Value same = node.getOp() == "Concat" ? onlyOperand(node)
               : isIdentity(node)       ? node.getOperand(0)
                                        : Value();
  if (!same)
    return failure();
  for (Value result : llvm::drop_begin(node.getResults()))
    if (!result.use_empty())
      return failure();
  rewriter.replaceAllUsesWith(node.getResult(0), same);
  rewriter.eraseOp(node);
  return success();
}
