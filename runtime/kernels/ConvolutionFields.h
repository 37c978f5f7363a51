#pragma once

#include "runtime/kernels/Library.h"

#include <string>
#include <vector>

namespace pdc::runtime {

/// A convolution's geometry in ONNX's terms, and the layouts of its tensors. The same description
/// serves the convolution and both of its gradients. `weightLayout` is that of the weights the
/// kernel reads or of the gradient it writes; grouped weights are row-major and packed per call.
struct ConvolutionFields {
  const char *algorithm = "direct"; ///< or "winograd"
  std::vector<int64_t> dilations;   ///< 1 is dense
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
  std::vector<int64_t> weight; ///< shape as ONNX has it
  const char *weightLayout = "";
};

/// A copy between a row-major weight and the library's own packing, kept in workspace.
class PackedWeight {
public:
  PackedWeight() = default;
  enum class Direction { intoLibrary, outOfLibrary };
  PackedWeight(const Device &device, const std::string &unit, const dnnl::memory::desc &plain,
               const dnnl::memory::desc &packed, Direction direction);
  void copy(const void *from, void *to, void *scratch);
  int64_t packedBytes() const { return bytes; }
  explicit operator bool() const { return static_cast<bool>(call); }

private:
  LibraryCall call;
  int64_t bytes = 0;
};

} // namespace pdc::runtime
