#pragma once

#include "compiler/onnx/Model.h"
#include "compiler/onnx/Protobuf.h"

namespace pdc {

/// Field numbers of onnx.proto, since the IR version that has them.
inline constexpr int64_t irVersionOfStages = 11;
inline constexpr int configurationOfModel = 26, nameOfConfiguration = 1, devicesOfConfiguration = 2;
inline constexpr int configurationOfNode = 10, idOfNodeConfiguration = 1,
                     shardsOfNodeConfiguration = 2, stageOfNodeConfiguration = 3;

/// The device configurations of a model of IR 11 or newer, without stages yet. Newer fields are read
/// by their numbers: the classes of an older libonnx keep them unread.
std::vector<ModelPartition> readConfigurations(const onnx::ModelProto &model);

/// A node's pipeline_stage in each configuration that gives it one. Throws Error, naming the node,
/// for a configuration that the model does not have and for negative stages.
std::map<std::string, int> readStages(const onnx::NodeProto &node,
                                      const std::vector<ModelPartition> &partitions);

/// The first node with a sharding_spec; empty where none has one.
std::string describeSharded(const onnx::ModelProto &model);

} // namespace pdc
