#include "compiler/onnx/PipelineStages.h"

#include "compiler/onnx/FlattenFunctions.h"
#include "compiler/onnx/ProtoFields.h"

#include <algorithm>

namespace pdc {

std::vector<ModelPartition> readConfigurations(const onnx::ModelProto &model) {
  std::vector<ModelPartition> partitions;
  if (model.ir_version() < irVersionOfStages)
    return partitions;
  for (const std::string &bytes : messagesOf(model, configurationOfModel)) {
    ModelPartition partition{stringOf(bytes, nameOfConfiguration),
                             integerOf(bytes, devicesOfConfiguration).value_or(0),
                             {}};
    for (const ModelPartition &other : partitions)
      if (other.configuration == partition.configuration)
        throw Error("device configuration '" + partition.configuration + "' is there twice");
    partitions.push_back(std::move(partition));
  }
  return partitions;
}

std::map<std::string, int> readStages(const onnx::NodeProto &node,
                                      const std::vector<ModelPartition> &partitions) {
  std::map<std::string, int> stages;
  if (partitions.empty())
    return stages;
  for (const std::string &bytes : messagesOf(node, configurationOfNode)) {
    std::string id = stringOf(bytes, idOfNodeConfiguration);
    auto isNamed = [&](const ModelPartition &partition) { return partition.configuration == id; };
    if (std::ranges::none_of(partitions, isNamed))
      throw Error(describe(node) + ": the model has no device configuration '" + id + "'");
    std::optional<int64_t> stage = integerOf(bytes, stageOfNodeConfiguration);
    constexpr int64_t most = 1 << 20;
    if (stage && (*stage < 0 || *stage > most))
      throw Error(describe(node) + ": pipeline_stage " + std::to_string(*stage) +
                  ", expected 0 to " + std::to_string(most));
    if (stage)
      stages[id] = static_cast<int>(*stage);
  }
  return stages;
}

std::string describeSharded(const onnx::ModelProto &model) {
  auto isSharded = [](const onnx::NodeProto &node) {
    return std::ranges::any_of(messagesOf(node, configurationOfNode), [](const std::string &bytes) {
      return !stringOf(bytes, shardsOfNodeConfiguration).empty();
    });
  };
  for (const onnx::NodeProto &node : model.graph().node())
    if (isSharded(node))
      return describe(node);
  for (const onnx::FunctionProto &function : model.functions())
    for (const onnx::NodeProto &node : function.node())
      if (isSharded(node))
        return describe(node);
  return "";
}

} // namespace pdc
