#pragma once

#include "compiler/ir/Pdc.h"

#include <optional>

namespace pdc::ir {

/// What a unit divides, or puts together of parts that lie behind one another: each is one piece of
/// the whole's bytes.
struct Partition {
  mlir::Value whole;
  llvm::SmallVector<mlir::Value> parts;
  llvm::SmallVector<int64_t> offsets; ///< of the parts, in bytes
  bool joins = false;                 ///< parts into the whole
};

/// Of a unit whose parts lie in the whole (its attribute `parts`); nothing for any other operation.
std::optional<Partition> placedPartitionOf(mlir::Operation *op);

} // namespace pdc::ir
