#pragma once

#include "compiler/operators/Operator.h"

#include <optional>
#include <string>
#include <string_view>

namespace pdc {

/// What a unit runs, as KernelChoice has it.
struct UnitKernel {
  std::string name;
  Attributes fields;
  int64_t workspaceBytes = 0;
  bool accumulates = false;
};

/// The kernel of GPUs that computes GELU by the hyperbolic tangent of what `product` makes; nothing
/// where there is none. `isKept`: the product is read by others, too, and is result 0.
std::optional<UnitKernel> fuseGelu(const UnitKernel &product, bool isKept);

/// The one that multiplies what `product` makes with the derivative of that GELU at its argument,
/// which is the last operand.
std::optional<UnitKernel> fuseGeluGradient(const UnitKernel &product);

/// The one that also makes `sum`, the sums of the columns of the product's operand `factor`, as its
/// result 0. It adds to both results or to none.
std::optional<UnitKernel> fuseColumnSum(const UnitKernel &product, const UnitKernel &sum,
                                        size_t factor);

} // namespace pdc
