#pragma once

#include "compiler/onnx/FlattenFunctions.h"
#include "compiler/onnx/Model.h"

namespace pdc {

/// Stops gradients where PyTorch's exporter (the one of torch.export) says that none goes through:
/// at a `detach`, which it writes as an Identity, behind a value that becomes the next one of a
/// buffer, and at an embedding's row for padding. Readers keep the names that they know.
void stopGradients(std::vector<FlatNode> &nodes, Names &values, const ExporterMetadata &metadata);

} // namespace pdc
