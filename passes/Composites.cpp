#include "passes/Composites.h"

#include "compiler/operators/Rules.h"

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

std::vector<int64_t> permutationOf(NodeOp transpose) {
  return permutationOf(NodeFacts(transpose).view());
}

} // namespace pdc
