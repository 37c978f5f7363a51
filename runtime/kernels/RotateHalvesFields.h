#pragma once

#include "runtime/kernels/Dimensions.h"

#include <cstdint>

namespace pdc::runtime {

/// Rotary position embedding of rows, by both halves of their width: y = x cos + (-x2, x1) sin.
struct RotateHalvesFields {
  int64_t interleaved = 0; ///< 1: not halves, but every second element of the width
  int64_t inverse = 0;     ///< 1: y = x cos + ((x sin)2, -(x sin)1)
  Dimensions rows;         ///< dimensions before the width
  Dimensions strides;      ///< along them, of cosines and sines, which have the width
  int64_t width = 0;       ///< even
};

} // namespace pdc::runtime
