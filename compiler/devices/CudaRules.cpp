#include "compiler/devices/Rules.h"

namespace pdc {

/// A GPU's convolutions are in CudaConvolution.cpp, its attention in CudaAttention.cpp. What cuDNN
/// fuses and what it does not was asked of cuDNN 9.19 for sm_90. The scores of a loss and their
/// gradient, often a network's largest tensors, are read and written in 16 bits.
const std::vector<Rule> &cudaRules() {
  static const std::vector<Rule> table = {
      {"Conv", chooseCudaConvolution, {"Relu"}},
      {.op = "BatchNormInternal",
       .choose = chooseCudaNormalisation,
       .epilogues = {"Add", "Relu"},
       .prologues = {"Conv"},
       .addsImages = true},
      {.op = "BatchNormalization",
       .choose = chooseCudaNormalisationInference,
       .epilogues = {"Add", "Relu"},
       .addsImages = true},
      {"BatchNormalizationGrad", chooseCudaNormalisationGradient, {}, {"ReluGrad"}},
      {"ConvInputGrad", chooseCudaConvolutionInputGradient},
      {"ConvWeightGrad", chooseCudaConvolutionWeightGradient},
      {"SoftmaxAttention", chooseCudaAttention},
      {"SoftmaxAttentionGrad", chooseCudaAttentionGradient},
      {"SoftmaxCrossEntropyLoss", chooseLoss, {}, {"Cast"}},
      {"SoftmaxCrossEntropyLossGrad", chooseLoss, {"Cast"}, {"Cast"}, true},
      {"CorrectPredictions", chooseLoss, {}, {"Cast"}},
  };
  return table;
}

} // namespace pdc
