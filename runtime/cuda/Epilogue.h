#pragma once

#include "runtime/Program.h"

#include <span>

/// What stands behind a library's kernel that the library does not compute itself.
namespace pdc::runtime::cuda {

/// y += bias, which broadcasts over y's shape from its last dimensions on; then relu where asked.
void addBias(const Run &run, std::span<const int64_t> shape, std::span<const int64_t> biasShape,
             const float *bias, bool relu, float *y);

/// y[row][channel] += bias[channel] (null: none), then relu where asked.
void addChannelBias(const Run &run, int64_t elements, int64_t channels, const float *bias,
                    bool relu, float *y);

} // namespace pdc::runtime::cuda
