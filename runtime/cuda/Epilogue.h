#pragma once

#include "runtime/Program.h"
#include "runtime/SmallFloats.h"

#include <span>

/// What stands behind a library's kernel that the library does not compute itself.
namespace pdc::runtime::cuda {

/// y += bias (null: none), which broadcasts over y's shape from its last dimensions on; then relu
/// where asked. Both of one type, or a bias of 16 bits to f32. `pitch`: elements from one row of y
/// as stored to the next; 0: as many as it has.
template <class Bias, class Y>
void addBias(const Run &run, std::span<const int64_t> shape, std::span<const int64_t> biasShape,
             const Bias *bias, bool relu, Y *y, int64_t pitch = 0);

/// y[row][channel] += bias[channel] (null: none), then relu where asked; y of an NC... shape, its
/// channels innermost. Y: float, BFloat16, Float16.
template <class Y>
void addChannelBias(const Run &run, std::span<const int64_t> shape, const float *bias, bool relu,
                    Y *y);

/// y = GELU(x) by the hyperbolic tangent, as loops of generated code compute it; y may be x. T:
/// float, BFloat16, Float16.
template <class T> void gelu(const Run &run, int64_t count, const T *x, T *y);

/// dx = dy times the derivative of GELU at x; dx may be dy.
template <class T> void geluGradient(const Run &run, int64_t count, const T *dy, const T *x, T *dx);

} // namespace pdc::runtime::cuda
