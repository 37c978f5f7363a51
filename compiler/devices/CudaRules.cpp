#include "compiler/devices/Rules.h"

namespace pdc {

/// Kernels have the CPU's names and fields, so most rules are the same; a GPU's convolutions are in
/// CudaConvolution.cpp. What cuDNN fuses and what it does not was asked of cuDNN 9.19 for sm_90.
const std::vector<Rule> &cudaRules() {
  static const std::vector<Rule> table = {
      {"Conv", chooseCudaConvolution, {"Relu"}},
      {"ConvInputGrad", chooseCudaConvolutionInputGradient},
      {"ConvWeightGrad", chooseCudaConvolutionWeightGradient},
      {"ConvBiasGrad", chooseBiasGradient},
      {"Gemm", chooseMatrixProduct, {"Relu"}},
      {"MatMul", chooseMatrixProduct, {"Add", "Relu"}},
      {"FusedMatMul", chooseMatrixProduct},
      {"MaxPool", choosePooling},
      {"AveragePool", choosePooling},
      {"GlobalAveragePool", choosePooling},
      {"MaxPoolGrad", choosePoolingGradient},
      {"AveragePoolGrad", choosePoolingGradient},
      {"GlobalAveragePoolGrad", choosePoolingGradient},
      {"BatchNormInternal", chooseBatchNormalization, {"Relu"}},
      {"BatchNormalization", chooseBatchNormalizationInference, {"Relu"}},
      {"BatchNormalizationGrad", chooseBatchNormalizationGradient, {}, {"ReluGrad"}},
      {"LayerNormalization", chooseLayerNormalization},
      {"LayerNormalizationInputGrad", chooseLayerNormalizationGradient},
      {"LayerNormalizationScaleGrad", chooseLayerNormalizationGradient},
      {"LRN", chooseLocalResponse},
      {"LRNGrad", chooseLocalResponse},
      {"Dropout", chooseDropout},
      {"DropoutGrad", chooseDropout},
      {"SgdUpdate", chooseUpdate},
      {"MomentumUpdate", chooseUpdate},
      {"AdamUpdate", chooseUpdate},
      {"ReduceSum", chooseReduction},
      {"ReduceMean", chooseReduction},
      {"Softmax", chooseSoftmax},
      {"LogSoftmax", chooseSoftmax},
      {"SoftmaxGrad", chooseSoftmax},
      {"LogSoftmaxGrad", chooseSoftmax},
      {"SoftmaxCrossEntropyLoss", chooseLoss},
      {"SoftmaxCrossEntropyLossGrad", chooseLoss},
      {"NegativeLogLikelihoodLoss", chooseLoss},
      {"NegativeLogLikelihoodLossGrad", chooseLoss},
      {"MeanSquaredError", chooseLoss},
      {"MeanAbsoluteError", chooseLoss},
      {"BinaryCrossEntropyWithLogits", chooseLoss},
      {"MeanSquaredErrorGrad", chooseLoss},
      {"MeanAbsoluteErrorGrad", chooseLoss},
      {"BinaryCrossEntropyWithLogitsGrad", chooseLoss},
      {"LossWeight", chooseLoss},
      {"CorrectPredictions", chooseLoss},
      {"Reorder", chooseReorder},
      {"Transpose", chooseMovement},
      {"Concat", chooseMovement},
      {"Split", chooseMovement},
      {"Slice", chooseMovement},
      {"SliceGrad", chooseMovement},
      {"Pad", chooseMovement},
      {"PadGrad", chooseMovement},
      {"Expand", chooseMovement},
      {"ReduceSumGrad", chooseMovement},
      {"Gather", chooseMovement},
      {"GatherGrad", chooseMovement},
  };
  return table;
}

} // namespace pdc
