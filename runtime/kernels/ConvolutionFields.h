#pragma once

#include <cstdint>
#include <vector>

namespace pdc::runtime {

/// A convolution's geometry in ONNX's terms, and the layouts of its tensors. The same description
/// serves the convolution and both of its gradients. `weightLayout` is that of the weights the
/// kernel reads or of the gradient it writes; row-major ones are packed per call.
struct ConvolutionFields {
  const char *algorithm = "direct"; ///< or "winograd"
  std::vector<int64_t> dilations;   ///< 1 is dense
  const char *fallback = "none";    ///< slowest implementation that was agreed to; see Fallback
  int64_t groups = 1;
  std::vector<int64_t> input; ///< shape
  const char *inputLayout = "";
  const char *name = "";
  std::vector<int64_t> output; ///< shape
  const char *outputLayout = "";
  std::vector<int64_t> padsBegin;
  std::vector<int64_t> padsEnd;
  int64_t relu = 0; ///< the convolution only: applied to the result
  std::vector<int64_t> strides;
  int64_t threads = 0;         ///< of the library's kernel; 0: the program's
  std::vector<int64_t> weight; ///< shape as ONNX has it
  const char *weightLayout = "";
};

} // namespace pdc::runtime
