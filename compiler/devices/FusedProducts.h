#pragma once

#include "compiler/devices/Device.h"

#include <optional>

/// What GPUs have one kernel for: a matrix product and what stands beside it. Kernels come as they
/// were chosen, by name and fields; arguments are those of the fused unit as they stand.
namespace pdc {

/// Computes GELU by the hyperbolic tangent of what `product` makes; nothing where there is no such
/// kernel. `isKept`: the product is read by others, too, and is result 0.
std::optional<KernelChoice> fuseGelu(const KernelChoice &product, bool isKept);

/// Multiplies what `product` makes with the derivative of that GELU at its argument, which is the
/// last operand.
std::optional<KernelChoice> fuseGeluGradient(const KernelChoice &product);

/// Also makes `sum`, the sums of the columns of the product's operand `factor`, as its result 0.
std::optional<KernelChoice> fuseColumnSum(const KernelChoice &product, const KernelChoice &sum,
                                          size_t factor);

} // namespace pdc
