#pragma once

#include "compiler/ir/Partition.h"

namespace pdc {

/// Of a unit that only divides, or puts together, row-major tensors along a dimension before which
/// none is longer than one; nothing for any other.
std::optional<ir::Partition> partitionOf(ir::UnitOp unit);

} // namespace pdc
