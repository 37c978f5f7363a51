#pragma once

#include "compiler/onnx/Model.h"

namespace pdc {

/// What is computed for no one is not imported: nodes whose outputs nobody reads, constants that
/// shapes took in. Outputs are kept whole: a gradient rule may read what the file does not.
void dropUnused(Model &model);

} // namespace pdc
