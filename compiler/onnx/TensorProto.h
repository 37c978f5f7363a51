#pragma once

#include "compiler/onnx/Model.h"
#include "compiler/onnx/Protobuf.h"

namespace pdc {

/// pdc's element type of an ONNX data type; `where` names the tensor in the refusal.
ElementType toElementType(int onnxType, const std::string &where);

/// Throws for more dimensions than a tensor ever has.
void checkRank(int rank, const std::string &where);

/// Elements of a shape; throws when a dimension is negative or the tensor exceeds what a machine
/// addresses.
int64_t checkedElementCount(const TensorType &type, const std::string &where);

/// Takes the bytes out of the message (it is empty afterwards) or notes where they lie outside.
/// `folder` is the model's; empty: external data is refused.
Initializer takeInitializer(onnx::TensorProto &proto, const std::string &where,
                            const ModelFolder &folder);

/// An integer as an element of a Tensor. Throws Error when a double cannot hold it: beyond 2^53,
/// except for bounds that mean "to the end", which are the largest integers of either sign.
double toElement(int64_t value, const std::string &where);

} // namespace pdc
