#include "compiler/ir/Conversion.h"

#include "mlir/IR/PatternMatch.h"

using namespace mlir;
using pdc::ir::AbsentOp;
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

/// Of a Constant; null where the value is none.
DenseElementsAttr elementsOfConstant(Value value) {
  auto constant = value.getDefiningOp<NodeOp>();
  return constant && constant.getOp() == "Constant"
             ? dyn_cast_or_null<DenseElementsAttr>(constant.getOnnxAttributes().get("value"))
             : DenseElementsAttr();
}

/// Whether a Slice goes through each dimension in its order: it may have steps, its input 4.
bool goesForward(NodeOp slice) {
  if (slice.getNumOperands() < 5 || slice.getOperand(4).getDefiningOp<AbsentOp>())
    return true;
  auto values = dyn_cast_or_null<DenseIntElementsAttr>(elementsOfConstant(slice.getOperand(4)));
  return values && llvm::all_of(values.getValues<APInt>(),
                                [](const APInt &step) { return step.isStrictlyPositive(); });
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
  if (rules->kind == pdc::OperatorClass::view || node.getOp() == "Cast" ||
      node.getOp() == "Expand" || node.getOp() == "Tile")
    return true;
  if (node.getOp() == "Sum")
    return node.getNumOperands() == 1;
  if (node.getOp() == "Slice")
    return goesForward(node);
  // Without a key it is ONNX's form, which only @evaluate has.
  auto ratio = dyn_cast_or_null<FloatAttr>(node.getOnnxAttributes().get("ratio"));
  bool isKeyed = static_cast<bool>(node.getOnnxAttributes().get("key"));
  return node.getOp() == "Dropout" && (!isKeyed || (ratio && ratio.getValueAsDouble() == 0));
}

/// The operand of a product beside a factor of one, or of a quotient by one, of the result's type;
/// null where there is none.
Value besideOne(NodeOp node) {
  auto isOne = [](Value value) {
    DenseElementsAttr elements = elementsOfConstant(value);
    if (!elements || elements.getNumElements() != 1)
      return false;
    return isa<FloatType>(elements.getElementType())
               ? elements.getSplatValue<APFloat>().isExactlyValue(1)
               : elements.getSplatValue<APInt>().isOne();
  };
  if ((node.getOp() != "Mul" && node.getOp() != "Div") || node.getNumOperands() != 2)
    return {};
  for (int i : {1, 0})
    if (Value other = node.getOperand(1 - i); (i == 1 || node.getOp() == "Mul") &&
                                              other.getType() == node.getResult(0).getType() &&
                                              isOne(node.getOperand(i)))
      return other;
  return {};
}

} // namespace

/// Removes nodes that change nothing. Nodes that nobody reads go because they are pure.
LogicalResult NodeOp::canonicalize(NodeOp node, PatternRewriter &rewriter) {
  if (node.getNumResults() == 0)
    return failure();
  Value same = node.getOp() == "Concat" ? onlyOperand(node)
               : isIdentity(node)       ? node.getOperand(0)
                                        : besideOne(node);
  if (!same)
    return failure();
  for (Value result : llvm::drop_begin(node.getResults()))
    if (!result.use_empty())
      return failure();
  rewriter.replaceAllUsesWith(node.getResult(0), same);
  rewriter.eraseOp(node);
  return success();
}
