#include "compiler/devices/Rules.h"
#include "runtime/kernels/RecurrentCellFields.h"

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
      {.op = "LstmCellGrad",
       .choose = chooseRecurrentCell,
       .prologues = {"Sum"},
       .prologueInput = 3,
       .mostTerms = runtime::RecurrentCellFields::kMostTerms},
      {.op = "GruCellGrad",
       .choose = chooseRecurrentCell,
       .prologues = {"Sum"},
       .prologueInput = 3,
       .mostTerms = runtime::RecurrentCellFields::kMostTerms},
      {"ConvInputGrad", chooseCudaConvolutionInputGradient},
      {"ConvWeightGrad", chooseCudaConvolutionWeightGradient},
      {"SoftmaxAttention", chooseCudaAttention},
      {"SoftmaxAttentionGrad", chooseCudaAttentionGradient},
      {"SoftmaxCrossEntropyLoss", chooseLoss, {}, {"Cast"}},
      {.op = "SoftmaxCrossEntropyLossGrad",
       .choose = chooseLoss,
       .epilogues = {"Cast"},
       .prologues = {"Cast"},
       .rounds = true},
      {"CorrectPredictions", chooseLoss, {}, {"Cast"}},
  };
  return table;
}

} // namespace pdc
