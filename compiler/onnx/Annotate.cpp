#include "compiler/onnx/Annotate.h"

#include "compiler/onnx/PipelineStages.h"
#include "compiler/onnx/ProtoFields.h"

#include <algorithm>
#include <fstream>

namespace pdc {

namespace {

using google::protobuf::UnknownFieldSet;

/// Field numbers of onnx.proto.
constexpr int metadataOfNode = 9, keyOfEntry = 1, valueOfEntry = 2;

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
  model.set_ir_version(std::max<int64_t>(model.ir_version(), irVersionOfStages));
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

/// Whether a name of the compiler's says an operator: `Mul`, or `Mul.1` where that is taken.
bool namesOperator(const std::string &part) { return findOperator(part.substr(0, part.find('.'))); }

/// The node of the file that this one is a part of: operators that are composed of others put NODE/OP in
/// their place. Exporters' names are paths too, so that the nearest node of the file has it.
std::string ownerOf(std::string name, const std::set<std::string> &ofFile) {
  while (!ofFile.contains(name)) {
    size_t slash = name.rfind('/');
    if (slash == std::string::npos || !namesOperator(name.substr(slash + 1)))
      return "";
    name.resize(slash);
  }
  return name;
}

/// A node that became several has the stage of the first of them.
std::map<std::string, int> stagesOfNodes(const Model &model, const ModelPartition &partition) {
  std::set<std::string> ofFile;
  for (const ModelNode &node : model.nodes)
    ofFile.insert(node.name);
  std::map<std::string, int> stages;
  for (const auto &[part, stage] : partition.stages) {
    std::string owner = ownerOf(part, ofFile);
    if (owner.empty() || (owner != part && partition.stages.contains(owner)))
      continue;
    int &first = stages.try_emplace(owner, stage).first->second;
    first = std::min(first, stage);
  }
  return stages;
}

bool isExternal(const onnx::TensorProto &tensor) { return tensor.external_data_size() > 0; }

bool hasExternalTensor(const onnx::GraphProto &graph);

template <class Nodes> bool anyNodeHasExternalTensor(const Nodes &nodes) {
  auto isOutside = [](const onnx::AttributeProto &attribute) {
    return (attribute.has_t() && isExternal(attribute.t())) ||
           (attribute.has_g() && hasExternalTensor(attribute.g())) ||
           std::ranges::any_of(attribute.tensors(), isExternal) ||
           std::ranges::any_of(attribute.graphs(), hasExternalTensor);
  };
  return std::ranges::any_of(nodes, [&](const onnx::NodeProto &node) {
    return std::ranges::any_of(node.attribute(), isOutside);
  });
}

bool hasExternalTensor(const onnx::GraphProto &graph) {
  return std::ranges::any_of(graph.initializer(), isExternal) ||
         anyNodeHasExternalTensor(graph.node());
}

/// In the graph, in Constant nodes, in functions or in what trains it.
bool hasExternalData(const onnx::ModelProto &model) {
  return hasExternalTensor(model.graph()) ||
         std::ranges::any_of(model.functions(),
                             [](const onnx::FunctionProto &function) {
                               return anyNodeHasExternalTensor(function.node());
                             }) ||
         std::ranges::any_of(model.training_info(), [](const onnx::TrainingInfoProto &info) {
           return hasExternalTensor(info.initialization()) || hasExternalTensor(info.algorithm());
         });
}

void checkFolder(const onnx::ModelProto &proto, const std::filesystem::path &from,
                 const std::filesystem::path &to) {
  auto folderOf = [](const std::filesystem::path &path) {
    return std::filesystem::weakly_canonical(std::filesystem::absolute(path)).parent_path();
  };
  if (hasExternalData(proto) && folderOf(from) != folderOf(to))
    throw Error(to.string() + ": the model has external data, which is found beside it; write the "
                              "annotated file into " +
                folderOf(from).string());
}

void annotateGraph(onnx::GraphProto &graph, const Model &model, const ModelPartition &partition) {
  std::map<std::string, int> stages = stagesOfNodes(model, partition), stageOfValue;
  for (const ModelNode &node : model.nodes)
    if (auto stage = stages.find(node.name); stage != stages.end())
      for (const std::string &output : node.outputs)
        stageOfValue[output] = stage->second;
  for (onnx::NodeProto &node : *graph.mutable_node())
    for (const std::string &output : node.output())
      if (auto stage = stageOfValue.find(output); !output.empty() && stage != stageOfValue.end()) {
        annotateNode(node, partition.configuration, stage->second);
        break;
      }
}

/// Beside it and then in its place: the model's own file may be the one that is replaced.
void replaceFile(const onnx::ModelProto &proto, const std::filesystem::path &path) {
  std::filesystem::path unfinished = path;
  unfinished += ".unfinished";
  std::error_code error;
  std::filesystem::remove(unfinished, error); // what a killed run left, or a link to elsewhere
  std::ofstream out(unfinished, std::ios::binary | std::ios::trunc);
  bool isWritten = out && proto.SerializeToOstream(&out) && out.flush();
  out.close();
  if (isWritten)
    std::filesystem::rename(unfinished, path, error);
  if (isWritten && !error)
    return;
  std::string why = isWritten ? ": " + error.message() : "";
  std::filesystem::remove(unfinished, error);
  throw Error(path.string() + ": cannot be written" + why);
}

} // namespace

void writeAnnotated(const std::filesystem::path &from, const Model &model,
                    const ModelPartition &partition, const std::filesystem::path &to) {
  onnx::ModelProto proto;
  std::ifstream in(from, std::ios::binary);
  if (!proto.ParseFromIstream(&in))
    throw Error(from.string() + ": cannot be read again");
  checkFolder(proto, from, to);
  annotateGraph(*proto.mutable_graph(), model, partition);
  annotateModel(proto, partition);
  replaceFile(proto, to);
}

} // namespace pdc
