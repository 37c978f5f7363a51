#pragma once

#include "compiler/onnx/Model.h"
#include "tools/pdc/Options.h"

#include <ostream>

namespace pdc {

/// Checks loss, parameters and optimizer of the command line against the model before any long
/// work, and where `print` is set says what will be trained: the loss and the list of parameters.
void describeTraining(const Model &model, const Options &options, std::ostream &out, bool print);

} // namespace pdc
