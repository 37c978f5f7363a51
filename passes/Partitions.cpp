#include "passes/Partitions.h"

#include "passes/Composites.h"
#include "passes/Nodes.h"
#include "passes/Values.h"

#include "compiler/ir/Conversion.h"
#include "compiler/operators/Rules.h"

using namespace mlir;
using namespace pdc::ir;

namespace pdc {

/// Puts the parts behind one another; false where they do not fill the whole.
static bool layOut(Partition &partition, ArrayRef<Type> pieces) {
  int64_t end = 0;
  for (Type piece : pieces) {
    partition.offsets.push_back(end);
    end += bytesOf(piece);
  }
  return end == bytesOf(partition.whole.getType());
}

static std::optional<Partition> joined(UnitOp unit, NodeOp concat) {
  Partition partition{unit.getResult(0), {}, {}, true};
  for (Value operand : concat.getOperands()) {
    Value part = operandBehind(unit, operand);
    if (!part)
      return std::nullopt;
    partition.parts.push_back(part);
  }
  const SmallVector<Type> pieces(concat->getOperandTypes());
  const bool isAll = partition.parts.size() > 1 && llvm::equal(partition.parts, unit.getOperands());
  return isAll && layOut(partition, pieces) ? std::optional(partition) : std::nullopt;
}

/// Parts that nobody reads are none of the unit's results.
static std::optional<Partition> divided(UnitOp unit, NodeOp split) {
  Partition all{operandBehind(unit, split.getOperand(0)), {}, {}, false};
  const SmallVector<Type> pieces(split->getResultTypes());
  if (!all.whole || unit.getNumOperands() != 1 || !layOut(all, pieces))
    return std::nullopt;
  Partition partition{all.whole, {}, {}, false};
  Operation *yield = unit.getBody().front().getTerminator();
  for (auto [result, yielded] : llvm::zip_equal(unit.getResults(), yield->getOperands())) {
    auto part = dyn_cast<OpResult>(yielded);
    if (!part || part.getOwner() != split)
      return std::nullopt;
    partition.parts.push_back(result);
    partition.offsets.push_back(all.offsets[part.getResultNumber()]);
  }
  return partition;
}

std::optional<Partition> partitionOf(UnitOp unit) {
  const SmallVector<NodeOp> nodes = computingNodes(unit);
  auto hasNoLayout = [](Type type) { return layoutOf(type).empty(); };
  if (nodes.size() != 1 || !llvm::all_of(unit->getOperandTypes(), hasNoLayout) ||
      !llvm::all_of(unit->getResultTypes(), hasNoLayout))
    return std::nullopt;
  NodeOp node = nodes.front();
  const bool joins = node.getOp() == "Concat";
  if (!joins && node.getOp() != "Split")
    return std::nullopt;
  ArrayRef<int64_t> shape = shapeOf(joins ? node->getResult(0) : node.getOperand(0));
  if (product(shape.take_front(axisOf(node)).vec()) != 1)
    return std::nullopt;
  return joins ? joined(unit, node) : divided(unit, node);
}

} // namespace pdc
