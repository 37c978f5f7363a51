#include "passes/Composites.h"

#include "compiler/operators/Rules.h"

#include "llvm/ADT/SetVector.h"

#include <cmath>

using namespace mlir;
using namespace pdc::ir;

namespace pdc {

NodeOp maker(Value value, StringRef op) {
  auto node = value.getDefiningOp<NodeOp>();
  return node && node.getOp() == op && node->getResult(0) == value ? node : NodeOp();
}

ArrayRef<int64_t> shapeOf(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && type.hasStaticShape() ? type.getShape() : ArrayRef<int64_t>();
}

std::optional<double> numberOf(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (!type || !type.hasStaticShape() || type.getNumElements() != 1 ||
      !isConstant(value.getDefiningOp()))
    return std::nullopt;
  return constantOf(value)->data.at(0);
}

bool isNumber(Value value, double expected) {
  std::optional<double> found = numberOf(value);
  return found && std::abs(*found - expected) <= 1e-6 * std::abs(expected);
}

void Product::multiply(Value value, bool isWhole) {
  NodeOp product = maker(value, "Mul");
  if (std::optional<double> constant = numberOf(value)) {
    number *= *constant;
  } else if (product && (isWhole || value.hasOneUse())) {
    for (Value operand : product.getOperands())
      multiply(operand, false);
  } else if (NodeOp quotient = maker(value, "Div");
             quotient && value.hasOneUse() && numberOf(quotient.getOperand(1))) {
    number /= *numberOf(quotient.getOperand(1));
    multiply(quotient.getOperand(0), false);
  } else {
    factors.push_back(value);
  }
}

Value beforeViews(Value value) {
  while (NodeOp view = value.getDefiningOp<NodeOp>()) {
    if (!llvm::is_contained({"Reshape", "Squeeze", "Unsqueeze"}, view.getOp()))
      break;
    value = view.getOperand(0);
  }
  return value;
}

std::vector<int64_t> permutationOf(NodeOp transpose) {
  return permutationOf(NodeFacts(transpose).view());
}

int64_t axisOf(NodeOp node) {
  const NodeFacts facts(node);
  const NodeView view = facts.view();
  return axisFromStart(view, view.attributes.integer("axis", 0), view.input(0).rank());
}

bool isMaskedByNormalisation(NodeOp node) {
  return node.getOp() == "ReluGrad" && llvm::any_of(node->getUsers(), [](Operation *user) {
           auto reader = dyn_cast<NodeOp>(user);
           return reader && reader.getOp() == "BatchNormalizationGrad";
         });
}

Value reshaped(OpBuilder &builder, NodeOp root, StringRef name, Value value,
               const std::vector<int64_t> &shape, NodeNames &names) {
  auto add = [&](StringRef op, const std::string &as, ValueRange operands, Attributes attributes) {
    return createNode(builder, root.getLoc(), op, as, operands, attributes)->getResult(0);
  };
  Value sizes =
      add("Constant", names.unique(name + "/shape"), {}, {{"value", pdc::Tensor::vector(shape)}});
  return add("Reshape", name.str(), {value, sizes}, {});
}

Value inShape(OpBuilder &builder, NodeOp root, StringRef suffix, Value value,
              const std::vector<int64_t> &shape, NodeNames &names) {
  return shapeOf(value) == ArrayRef(shape)
             ? value
             : reshaped(builder, root, names.unique(root.getName() + suffix), value, shape, names);
}

void eraseUnread(ArrayRef<Value> values) {
  auto moves = [](NodeOp node) {
    return isViewNode(node) || node.getOp() == "Transpose" || node.getOp() == "Split";
  };
  llvm::SetVector<Operation *> nodes; // each behind all of its readers
  for (Value value : values) {
    auto node = value.getDefiningOp<NodeOp>();
    for (; node && moves(node); node = node.getOperand(0).getDefiningOp<NodeOp>()) {
      nodes.remove(node);
      nodes.insert(node);
    }
  }
  for (Operation *node : nodes)
    if (node->use_empty())
      node->erase();
}

} // namespace pdc
