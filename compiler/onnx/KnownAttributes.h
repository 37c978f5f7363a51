#pragma once

#include "compiler/onnx/Protobuf.h"

namespace pdc {

/// Throws Error for an attribute that an operator of ONNX's own domain does not have at this opset:
/// a misspelled one would otherwise count for nothing. Says nothing of operators that are not known
/// to the ONNX library or here.
void checkAttributesKnown(const onnx::NodeProto &node, int64_t opset);

} // namespace pdc
