#include "compiler/devices/Rules.h"

namespace pdc {

/// A GPU's convolutions are in CudaConvolution.cpp. What cuDNN fuses and what it does not was asked of
/// cuDNN 9.19 for sm_90.
const std::vector<Rule> &cudaRules() {
  static const std::vector<Rule> table = {
      {"Conv", chooseCudaConvolution, {"Relu"}},
      {"ConvInputGrad", chooseCudaConvolutionInputGradient},
      {"ConvWeightGrad", chooseCudaConvolutionWeightGradient},
  };
  return table;
}

} // namespace pdc
