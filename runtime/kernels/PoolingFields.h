#pragma once

#include <cstdint>
#include <vector>

namespace pdc::runtime {

/// Windows over the spatial dimensions; all tensors in one layout. Max pooling for training records
/// where each maximum was, in bytes (u8 below 256 taps, else i32) in the layout of the output.
struct PoolingFields {
  std::vector<int64_t> input; ///< shape
  std::vector<int64_t> kernel;
  const char *layout = "";
  const char *mode = "max"; ///< "max", "average" (inside the image only), "average_with_pads"
  const char *name = "";
  std::vector<int64_t> output; ///< shape
  std::vector<int64_t> padsBegin;
  int64_t positions = 0; ///< max: the kernel writes or reads the positions
  std::vector<int64_t> strides;
};

} // namespace pdc::runtime
