#pragma once

#include "compiler/onnx/Loss.h"

namespace pdc {

/// Shell patterns (`*`, `?`, `[...]`) over names of initializers, as `--train` and `--freeze` take.
struct ParameterPatterns {
  std::vector<std::string> train;
  std::vector<std::string> freeze;
};

/// The initializers that training changes. Without `train` patterns: floating-point initializers
/// that reach the loss through a weight operand, except running statistics, what stands in the file
/// as a Constant node, and names of masks and rotary tables; `freeze` takes away from either.
/// Throws for a pattern that matches nothing and when nothing is left to train.
std::set<std::string> chooseParameters(const Model &model, const Loss &loss,
                                       const ParameterPatterns &patterns);

/// Means and variances that BatchNormalization keeps.
std::set<std::string> runningStatistics(const Model &model);

} // namespace pdc
