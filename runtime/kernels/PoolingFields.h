#pragma once

#include "runtime/kernels/Dimensions.h"

#include <cstdint>

namespace pdc::runtime {

/// Windows over the spatial dimensions; all tensors in one layout. Max pooling for training records
/// where each maximum was, in bytes (u8 below 256 taps, else i32) in the layout of the output.
struct PoolingFields {
  Dimensions input; ///< shape
  Dimensions kernel;
  const char *layout = "";
  const char *mode = "max"; ///< "max", "average" (inside the image only), "average_with_pads"
  const char *name = "";
  Dimensions output; ///< shape
  Dimensions padsBegin;
  int64_t positions = 0; ///< max: the kernel writes or reads the positions
  Dimensions strides;
};

} // namespace pdc::runtime
