#include "compiler/ir/Partition.h"

namespace pdc::ir {

std::optional<Partition> placedPartitionOf(mlir::Operation *op) {
  auto unit = mlir::dyn_cast_or_null<UnitOp>(op);
  if (!unit || !unit.getParts())
    return std::nullopt;
  Partition partition;
  partition.joins = unit.getNumOperands() > 1;
  partition.whole = partition.joins ? unit.getResult(0) : unit.getOperand(0);
  if (partition.joins)
    llvm::append_range(partition.parts, unit.getOperands());
  else
    llvm::append_range(partition.parts, unit.getResults());
  llvm::append_range(partition.offsets, *unit.getParts());
  return partition;
}

} // namespace pdc::ir
