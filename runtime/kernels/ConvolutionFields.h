#pragma once

#include "runtime/kernels/Dimensions.h"

#include <cstdint>
#include <span>

namespace pdc::runtime {

/// A convolution's geometry in ONNX's terms, and the layouts of its tensors. The same description
/// serves the convolution and both of its gradients. `weightLayout` is that of the weights the
/// kernel reads or of the gradient it writes; row-major ones are packed per call.
struct ConvolutionFields {
  const char *algorithm = "direct"; ///< or "winograd"
  int64_t bias = 0;                 ///< on GPUs: whether the convolution has one
  /// Or "tf32": what f32 factors are rounded to; "bf16", "fp16": images and weights are stored so.
  const char *compute = "fp32";
  Dimensions dilations;          ///< 1 is dense
  const char *fallback = "none"; ///< slowest implementation that was agreed to; see Fallback
  int64_t groups = 1;
  Dimensions input; ///< shape
  const char *inputLayout = "";
  const char *name = "";
  Dimensions output; ///< shape
  const char *outputLayout = "";
  Dimensions padsBegin;
  Dimensions padsEnd;
  int64_t relu = 0; ///< the convolution only: applied to the result
  Dimensions strides;
  int64_t threads = 0; ///< of the library's kernel; 0: the program's
  Dimensions weight;   ///< shape as ONNX has it
  const char *weightLayout = "";
};

/// Whether each channel of a line is convolved by itself.
inline bool isDepthwiseLine(std::span<const int64_t> input, std::span<const int64_t> weight,
                            int64_t groups) {
  return input.size() == 3 && groups > 1 && groups == input[1] && groups == weight[0];
}

} // namespace pdc::runtime
