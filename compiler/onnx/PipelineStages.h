#pragma once

#include "compiler/onnx/Model.h"
#include "compiler/onnx/Protobuf.h"

namespace pdc {

/// The device configurations of a model of IR 11 or newer, without stages yet. Newer fields are read
/// by their numbers: the classes of an older libonnx keep them unread.
std::vector<ModelPartition> readConfigurations(const onnx::ModelProto &model);

/// A node's pipeline_stage in each configuration that gives it one. Throws Error, naming the node,
/// for a configuration that the model does not have and for negative stages.
std::map<std::string, int> readStages(const onnx::NodeProto &node,
                                      const std::vector<ModelPartition> &partitions);

} // namespace pdc
