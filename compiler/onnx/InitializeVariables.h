#pragma once

#include "compiler/onnx/TrainingInfo.h"

namespace pdc {

/// Gives state variables the values that the initialization graph makes: constants, one repeated
/// value, random numbers. Throws Error, naming the node, for what else it computes.
void initializeVariables(const TrainingInfo &info, const ModelFolder &folder, Model &model);

} // namespace pdc
