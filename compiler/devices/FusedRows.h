#pragma once

#include "compiler/devices/Device.h"

#include <optional>

/// What GPUs compute beside the normalisation of rows, or beside a relu's gradient, in the pass
/// over memory that it takes. Kernels come as they were chosen, by name and fields; arguments are
/// those of the fused unit as they stand. All of it has the bits of two kernels.
namespace pdc {

/// LayerNormalization of the sum of two tensors, its first arguments. `isKept`: others read the
/// sum, too, and it is result 0.
std::optional<KernelChoice> addBefore(const KernelChoice &normalisation, bool isKept);

/// Its input's gradient, of what arrives as the sum of so many tensors.
std::optional<KernelChoice> addArriving(const KernelChoice &gradient, size_t terms, bool isKept);

/// Adds to its input's gradient, which arriving terms may have been added to, what the last
/// argument is.
std::optional<KernelChoice> addBehind(const KernelChoice &gradient);

/// Its scale's gradient, and what `sum` makes as result 1: its bias's, of what arrives.
std::optional<KernelChoice> sumBias(const KernelChoice &gradient, const KernelChoice &sum);

/// The gradient of a relu, a loop of its own over two tensors, and as result 1 what `sum` makes of
/// it: a bias's gradient.
std::optional<KernelChoice> sumRectified(const KernelChoice &sum);

} // namespace pdc
