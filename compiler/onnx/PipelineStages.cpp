#include "compiler/onnx/PipelineStages.h"

#include "compiler/onnx/Annotate.h"
#include "compiler/onnx/FlattenFunctions.h"
#include "compiler/onnx/ProtoFields.h"

#include <algorithm>
#include <fstream>

namespace pdc {

namespace {

using google::protobuf::UnknownFieldSet;

/// Field numbers of onnx.proto.
constexpr int configurationOfModel = 26, nameOfConfiguration = 1, devicesOfConfiguration = 2;
constexpr int configurationOfNode = 10, idOfNodeConfiguration = 1, stageOfNodeConfiguration = 3;
constexpr int metadataOfNode = 9, keyOfEntry = 1, valueOfEntry = 2;
constexpr int64_t firstIrVersion = 11;

std::string bytesOf(const UnknownFieldSet &fields) {
  std::string bytes;
  fields.SerializeToString(&bytes);
  return bytes;
}

/// Takes out those elements of a repeated field whose own field 1 is `name`.
void removeNamed(UnknownFieldSet &fields, int number, const std::string &name) {
  for (int i = fields.field_count() - 1; i >= 0; --i)
    if (fields.field(i).number() == number &&
        fields.field(i).type() == google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED &&
        stringOf(fields.field(i).length_delimited(), 1) == name)
      fields.DeleteSubrange(i, 1);
}

void annotateModel(onnx::ModelProto &model, const ModelPartition &partition) {
  model.set_ir_version(std::max<int64_t>(model.ir_version(), firstIrVersion));
  // The graph stays aside: only the few other fields are read and written anew.
  onnx::GraphProto graph;
  graph.Swap(model.mutable_graph());
  model.clear_graph();
  editFields(model, [&](UnknownFieldSet &fields) {
    removeNamed(fields, configurationOfModel, partition.configuration);
    UnknownFieldSet configuration;
    configuration.AddLengthDelimited(nameOfConfiguration, partition.configuration);
    configuration.AddVarint(devicesOfConfiguration, static_cast<uint64_t>(partition.devices));
    fields.AddLengthDelimited(configurationOfModel, bytesOf(configuration));
  });
  graph.Swap(model.mutable_graph());
}

void annotateNode(onnx::NodeProto &node, const std::string &configuration, int stage) {
  editFields(node, [&](UnknownFieldSet &fields) {
    removeNamed(fields, configurationOfNode, configuration);
    removeNamed(fields, metadataOfNode, configuration + ".stage");
    UnknownFieldSet annotation, entry;
    annotation.AddLengthDelimited(idOfNodeConfiguration, configuration);
    annotation.AddVarint(stageOfNodeConfiguration, static_cast<uint64_t>(stage));
    fields.AddLengthDelimited(configurationOfNode, bytesOf(annotation));
    entry.AddLengthDelimited(keyOfEntry, configuration + ".stage");
    entry.AddLengthDelimited(valueOfEntry, std::to_string(stage));
    fields.AddLengthDelimited(metadataOfNode, bytesOf(entry));
  });
}

/// A node that became several has the stage of the first of them.
std::optional<int> stageOfNode(const std::map<std::string, int> &stages, const std::string &name) {
  if (auto found = stages.find(name); found != stages.end())
    return found->second;
  std::optional<int> first;
  const std::string prefix = name + "/";
  for (auto part = stages.lower_bound(prefix);
       part != stages.end() && part->first.starts_with(prefix); ++part)
    first = std::min(first.value_or(part->second), part->second);
  return first;
}

bool hasExternalData(const onnx::ModelProto &model) {
  return std::ranges::any_of(model.graph().initializer(), [](const onnx::TensorProto &tensor) {
    return tensor.external_data_size() > 0;
  });
}

} // namespace

std::vector<ModelPartition> readConfigurations(const onnx::ModelProto &model) {
  std::vector<ModelPartition> partitions;
  if (model.ir_version() < firstIrVersion)
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

void writeAnnotated(const std::filesystem::path &from, const Model &model,
                    const ModelPartition &partition, const std::filesystem::path &to) {
  onnx::ModelProto proto;
  std::ifstream in(from, std::ios::binary);
  if (!proto.ParseFromIstream(&in))
    throw Error(from.string() + ": cannot be read again");
  auto folderOf = [](const std::filesystem::path &path) {
    return std::filesystem::weakly_canonical(std::filesystem::absolute(path)).parent_path();
  };
  if (hasExternalData(proto) && folderOf(from) != folderOf(to))
    throw Error(to.string() + ": the model has external data, which is found beside it; write the "
                              "annotated file into " +
                folderOf(from).string());
  std::map<std::string, int> stageOfValue;
  for (const ModelNode &node : model.nodes)
    if (std::optional<int> stage = stageOfNode(partition.stages, node.name))
      for (const std::string &output : node.outputs)
        stageOfValue[output] = *stage;
  for (onnx::NodeProto &node : *proto.mutable_graph()->mutable_node())
    for (const std::string &output : node.output())
      if (auto stage = stageOfValue.find(output); !output.empty() && stage != stageOfValue.end()) {
        annotateNode(node, partition.configuration, stage->second);
        break;
      }
  annotateModel(proto, partition);
  std::ofstream out(to, std::ios::binary | std::ios::trunc);
  if (!proto.SerializeToOstream(&out) || !out.flush())
    throw Error(to.string() + ": cannot be written");
}

} // namespace pdc
