#include "compiler/devices/Rules.h"

namespace pdc {

const std::vector<Rule> &processorRules() {
  static const std::vector<Rule> table = {
      {"Conv", chooseConvolution, {"Relu"}},
      {"ConvInputGrad", chooseConvolutionInputGradient},
      {"ConvWeightGrad", chooseConvolutionWeightGradient},
  };
  return table;
}

} // namespace pdc
