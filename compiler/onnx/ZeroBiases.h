#pragma once

#include "compiler/onnx/Model.h"

namespace pdc {

/// Leaves out biases of convolutions that are made of the number zero, as PyTorch's newer exporter
/// gives a Conv3d without one (with a dimension too many, up to PyTorch 2.15).
void dropZeroBiases(Model &model);

} // namespace pdc
