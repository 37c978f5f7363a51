#pragma once

#include "compiler/onnx/Model.h"
#include "compiler/onnx/Protobuf.h"

namespace pdc {

/// From fields that the installed classes of ONNX may be too old to know.
ExporterMetadata readExporterMetadata(const onnx::GraphProto &graph);

} // namespace pdc
