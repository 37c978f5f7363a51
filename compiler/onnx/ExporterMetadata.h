#pragma once

#include "compiler/onnx/Model.h"
#include "compiler/onnx/Protobuf.h"

namespace pdc {

/// From fields that the installed classes of ONNX may be too old to know.
ExporterMetadata readExporterMetadata(const onnx::GraphProto &graph);

/// Puts the path of the network's module before the name of each node that comes from one, as the
/// older exporter does: "encoder.0.attention/linear_2" for "node_linear_2".
void nameByModules(onnx::GraphProto &graph);

/// Whether it is an Identity that stands for a `detach`.
bool isDetach(const onnx::NodeProto &node);

/// Whether it is a Max or Min that stands for a `clamp`, whose gradient is another one at the
/// bound.
bool isClamp(const onnx::NodeProto &node);

/// Whether it is a Squeeze that stands for PyTorch's, which leaves dimensions of other sizes
/// than 1.
bool squeezesWhereOne(const onnx::NodeProto &node);

/// The row of an embedding's table that is not trained (padding_idx), where it has one.
std::optional<int64_t> paddingRow(const onnx::NodeProto &node);

} // namespace pdc
