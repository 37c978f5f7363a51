#pragma once

#include "compiler/onnx/Protobuf.h"

namespace pdc {

/// Throws Error for an attribute that an operator of ONNX's own domains does not have at this
/// opset: a misspelled one would otherwise count for nothing. Says nothing of opsets and operators
/// that are not supported, which are refused as such; and throws for an attribute of a function
/// outside of one.
void checkAttributesKnown(const onnx::NodeProto &node, int64_t opset);

} // namespace pdc
