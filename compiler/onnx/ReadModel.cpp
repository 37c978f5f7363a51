#include "compiler/onnx/CheckNames.h"
#include "compiler/onnx/Conditions.h"
#include "compiler/onnx/ExporterMetadata.h"
#include "compiler/onnx/FlattenFunctions.h"
#include "compiler/onnx/GradientNodes.h"
#include "compiler/onnx/InitializeVariables.h"
#include "compiler/onnx/MaskedPlaces.h"
#include "compiler/onnx/Normalisations.h"
#include "compiler/onnx/OrtArtifacts.h"
#include "compiler/onnx/OrtOperators.h"
#include "compiler/onnx/PipelineStages.h"
#include "compiler/onnx/ReadNodes.h"
#include "compiler/onnx/ReadTraining.h"
#include "compiler/onnx/Sequences.h"
#include "compiler/onnx/SortNodes.h"
#include "compiler/onnx/StoppedGradients.h"
#include "compiler/onnx/TensorProto.h"
#include "compiler/onnx/Unused.h"
#include "compiler/onnx/WidenedIntegers.h"
#include "compiler/onnx/ZeroBiases.h"

#include <algorithm>
#include <fstream>
#include <functional>
#include <limits>

namespace pdc {

namespace {

/// Up to this one all is known that the reader's message classes may be too old for: device configurations
/// are read by their numbers, element types and overloads of functions are refused. Newer files may say
/// things that these classes drop without a word.
constexpr int64_t newestIrVersion = 14;

onnx::ModelProto parse(google::protobuf::io::ZeroCopyInputStream &stream) {
  google::protobuf::LogSilencer silence;
  google::protobuf::io::CodedInputStream coded(&stream);
  coded.SetTotalBytesLimit(std::numeric_limits<int>::max());
  onnx::ModelProto model;
  if (!model.ParseFromCodedStream(&coded) || !coded.ConsumedEntireMessage())
    throw Error("not an ONNX model, or cut off");
  return model;
}

void checkHeader(const onnx::ModelProto &model) {
  if (!model.has_graph())
    throw Error("not an ONNX model: it has no graph");
  if (model.ir_version() < 1 || model.ir_version() > newestIrVersion)
    throw Error("IR version " + std::to_string(model.ir_version()) +
                " is not supported; supported "
                "are 1 to " +
                std::to_string(newestIrVersion));
  if (model.graph().sparse_initializer_size())
    throw Error("sparse initializer '" + model.graph().sparse_initializer(0).values().name() +
                "' is not supported; export it dense");
}

Dimension readDimension(const onnx::TensorShapeProto::Dimension &proto, const std::string &value,
                        int index) {
  if (proto.has_dim_value()) {
    if (proto.dim_value() <= 0)
      throw Error("value '" + value + "': dimension " + std::to_string(index) + " is " +
                  std::to_string(proto.dim_value()) + ", expected at least 1 or a name");
    return {proto.dim_value(), ""};
  }
  std::string symbol = proto.dim_param();
  return {std::nullopt, symbol.empty() ? unnamedDimension(value, index) : symbol};
}

ModelValue readValue(const onnx::ValueInfoProto &proto, bool isInput) {
  ModelValue value{proto.name(), ElementType::f32, {}};
  std::string where = std::string(isInput ? "input" : "output") + " '" + proto.name() + "'";
  if (!proto.type().has_tensor_type()) {
    if (isInput || proto.type().value_case() != onnx::TypeProto::VALUE_NOT_SET)
      throw Error(where + ": expected a tensor type; sequences, maps and untyped inputs are not "
                          "supported");
    return value;
  }
  const onnx::TypeProto::Tensor &tensor = proto.type().tensor_type();
  value.element = computedElement(toElementType(tensor.elem_type(), where));
  if (isInput && !tensor.has_shape())
    throw Error(where + ": has no shape; export it with one (dimensions may be names)");
  checkRank(tensor.shape().dim_size(), where);
  value.isNumber = tensor.has_shape() && tensor.shape().dim_size() == 0;
  for (int i = 0; i < tensor.shape().dim_size(); ++i)
    value.shape.push_back(readDimension(tensor.shape().dim(i), proto.name(), i));
  return value;
}

class ModelReader {
public:
  ModelReader(onnx::ModelProto &proto, const ModelFolder &folder, const ArtifactFiles &files,
              const std::map<std::string, int64_t> &dimensions)
      : proto(proto), graph(*proto.mutable_graph()), folder(folder), files(files),
        dimensions(dimensions) {}

  void read(Model &model) {
    info = takeTrainingInfo(proto);
    model.metadata = readExporterMetadata(graph);
    nameByModules(graph);
    model.producer = proto.producer_name();
    artifacts = takeOrtArtifacts(
        graph, folder.path.empty() ? folder.path : folder.path / model.name, files);
    readInitializers(model);
    readInputs(model);
    for (const onnx::ValueInfoProto &output : graph.output())
      model.outputs.push_back(readValue(output, false));
    if (model.outputs.empty())
      throw Error("the graph has no output");
    model.partitions = readConfigurations(proto);
    if (!model.partitions.empty())
      model.sharded = describeSharded(proto);
    std::vector<FlatNode> nodes = flattenFunctions(proto, values);
    // With training_info they say what is minimised, and their values are not computed as such.
    if (!info)
      connectGradients(nodes);
    stopGradients(nodes, values, model.metadata);
    auto isGiven = [this](const std::string &name) { return given.contains(name); };
    nodes = sortNodes(std::move(nodes), isGiven);
    checkOutputs(nodes, model);
    if (info)
      readTrainingInfo(nodes, model);
    if (artifacts)
      readArtifacts(nodes, model);
    SequenceReplacement sequences(nodes, values, graph, model);
    decideConditions(nodes, values, folder, dimensions, sequences, model);
    checkUnread(nodes, model);
    NodeReader reader(values, folder, model);
    for (FlatNode &node : nodes)
      reader.read(node);
    reader.checkOutputs();
    replaceMaskedPlaces(model);
    dropZeroBiases(model);
    separateStatistics(model);
    dropUnused(model);
    refuseWidenedArithmetic(model);
    for (const auto &[name, initializer] : model.initializers)
      if (initializer.stored && !initializer.literal)
        model.widths.insert(*initializer.stored);
  }

private:
  void give(const std::string &name, const std::string &what) {
    if (name.empty())
      throw Error(what + " without a name");
    checkName(name, what);
    if (!given.insert(name))
      throw Error(what + " '" + name + "' is there twice");
    values.insert(name);
  }

  void readInitializers(Model &model) {
    for (onnx::TensorProto &tensor : *graph.mutable_initializer()) {
      give(tensor.name(), "initializer");
      std::string where = "initializer '" + tensor.name() + "'";
      if (isPlaceOnly(tensor)) {
        model.initializers.emplace(tensor.name(), takePlace(tensor, where));
        continue;
      }
      try {
        model.initializers.emplace(tensor.name(), takeInitializer(tensor, where, folder));
      } catch (const Error &error) {
        refused.emplace(tensor.name(), error);
      }
    }
    if (artifacts)
      readParameters(model);
  }

  /// Where the graph takes them as inputs, it says what each of them is.
  void readParameters(Model &model) {
    std::map<std::string_view, const onnx::ValueInfoProto *> declared;
    for (const onnx::ValueInfoProto &input : graph.input())
      declared[input.name()] = &input;
    for (Initializer &parameter : artifacts->parameters) {
      give(parameter.name, "parameter of the checkpoint");
      if (auto input = declared.find(parameter.name); input != declared.end())
        checkDeclared(readValue(*input->second, true), parameter);
      model.initializers.emplace(parameter.name, std::move(parameter));
    }
  }

  static void checkDeclared(const ModelValue &input, const Initializer &parameter) {
    auto fits = [](const Dimension &dimension, int64_t size) {
      return !dimension.value || *dimension.value == size;
    };
    const TensorType &type = parameter.type;
    if (input.element != type.element || !std::ranges::equal(input.shape, type.shape, fits))
      throw Error("input '" + input.name + "': expected " + typeText(input) + ", found " +
                  type.toString() + " in " + parameter.file.string() +
                  "; give the checkpoint that was made with this graph (--checkpoint FILE)");
  }

  /// A variable that the initialization fills needs no elements in the file.
  bool isPlaceOnly(const onnx::TensorProto &tensor) const {
    return info && info->initialization.contains(tensor.name()) && tensor.raw_data().empty() &&
           !tensor.external_data_size() && !tensor.float_data_size() &&
           !tensor.double_data_size() && !tensor.int64_data_size() && !tensor.int32_data_size();
  }

  static Initializer takePlace(const onnx::TensorProto &tensor, const std::string &where) {
    checkRank(tensor.dims_size(), where);
    Initializer place;
    place.name = tensor.name();
    place.type.element = computedElement(toElementType(tensor.data_type(), where));
    place.type.shape.assign(tensor.dims().begin(), tensor.dims().end());
    checkedElementCount(place.type, where);
    return place;
  }

  /// Of the algorithm only what the loss needs is imported: pdc makes the rest itself.
  void readTrainingInfo(std::vector<FlatNode> &nodes, Model &model) {
    initializeVariables(*info, folder, model);
    std::set<std::string> wanted;
    for (const ModelValue &output : model.outputs)
      wanted.insert(output.name);
    // Without updates the algorithm is of no use, and what the file trains is not said.
    if (!info->updates.empty()) {
      model.training = readTraining(*info, nodes, model);
      const std::string &loss = model.training->loss;
      if (wanted.insert(loss).second)
        model.outputs.push_back({loss, ElementType::f32, {}});
    }
    keepAncestors(nodes, wanted);
    // Learning rates and counts of updates are pdc's own inputs.
    dropUnread(nodes, model, [&](const std::string &name) { return info->inputs.contains(name); });
  }

  /// Gradients are pdc's own, and so are the buffers that they are summed in.
  void readArtifacts(std::vector<FlatNode> &nodes, Model &model) {
    model.training = std::move(artifacts->training);
    std::set<std::string> wanted;
    for (const ModelValue &output : model.outputs)
      wanted.insert(output.name);
    keepAncestors(nodes, wanted);
    replaceOrtOperators(nodes, values, model);
    dropUnread(nodes, model, [](const std::string &) { return true; });
  }

  static void dropUnread(const std::vector<FlatNode> &nodes, Model &model,
                         const std::function<bool(const std::string &)> &mayGo) {
    std::set<std::string> read;
    for (const FlatNode &node : nodes)
      read.insert(node.proto.input().begin(), node.proto.input().end());
    std::erase_if(model.inputs, [&](const ModelValue &input) {
      return !read.contains(input.name) && mayGo(input.name);
    });
  }

  /// Before IR 4 initializers had to be listed as inputs too.
  void readInputs(Model &model) {
    for (const onnx::ValueInfoProto &input : graph.input()) {
      if (model.initializers.contains(input.name()) || refused.contains(input.name()))
        continue;
      give(input.name(), "input");
      try {
        model.inputs.push_back(readValue(input, true));
      } catch (const Error &error) {
        refused.emplace(input.name(), error);
      }
    }
  }

  /// Of what is refused nothing may be read.
  void checkUnread(const std::vector<FlatNode> &nodes, const Model &model) {
    auto check = [&](const std::string &name) {
      if (auto found = refused.find(name); found != refused.end())
        throw found->second;
    };
    for (const FlatNode &node : nodes)
      std::ranges::for_each(node.proto.input(), check);
    for (const ModelValue &output : model.outputs)
      check(output.name);
  }

  void checkOutputs(const std::vector<FlatNode> &nodes, const Model &model) {
    std::set<std::string> made;
    for (const FlatNode &node : nodes)
      made.insert(node.proto.output().begin(), node.proto.output().end());
    Names seen;
    for (const ModelValue &output : model.outputs) {
      if (!made.contains(output.name) && !given.contains(output.name))
        throw Error("output '" + output.name + "' is made by no node");
      if (!seen.insert(output.name))
        throw Error("output '" + output.name + "' is there twice");
    }
  }

  onnx::ModelProto &proto;
  onnx::GraphProto &graph;
  const ModelFolder &folder;
  const ArtifactFiles &files;
  const std::map<std::string, int64_t> &dimensions;
  std::optional<TrainingInfo> info;
  std::optional<OrtArtifacts> artifacts;
  Names given;
  Names values;
  std::map<std::string, Error> refused; ///< initializers and inputs, unless nothing reads them
};

Model readStream(google::protobuf::io::ZeroCopyInputStream &stream, const std::string &name,
                 const ModelFolder &folder, const ArtifactFiles &files,
                 const std::map<std::string, int64_t> &dimensions) {
  try {
    onnx::ModelProto proto = parse(stream);
    checkHeader(proto);
    Model model;
    model.name = name;
    ModelReader(proto, folder, files, dimensions).read(model);
    return model;
  } catch (const Error &error) {
    throw Error(name + ": " + error.what());
  }
}

} // namespace

Model parseModel(std::string_view bytes, const std::string &name, const ModelFolder &folder) {
  if (bytes.size() > size_t(std::numeric_limits<int>::max()))
    throw Error(name + ": larger than 2 GiB; store its weights as external data");
  google::protobuf::io::ArrayInputStream stream(bytes.data(), static_cast<int>(bytes.size()));
  return readStream(stream, name, folder, {}, {});
}

/// A FlatBuffers file says at its beginning what it is of.
static bool isOrtFormat(std::ifstream &file) {
  char head[8] = {};
  file.read(head, sizeof head);
  file.clear();
  file.seekg(0);
  return std::string_view(head + 4, 4) == "ORTM";
}

Model readModel(const std::filesystem::path &path, const ArtifactFiles &files,
                const std::map<std::string, int64_t> &dimensions) {
  std::string name = path.filename().string();
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error))
    throw Error(path.string() + ": " +
                (std::filesystem::exists(path, error) ? "not a file" : "no such file"));
  std::ifstream file(path, std::ios::binary);
  if (!file)
    throw Error(path.string() + ": cannot be opened for reading");
  if (isOrtFormat(file))
    throw Error(name + ": in ONNX Runtime's own format, expected ONNX's; give the .onnx file that "
                       "it was made from");
  google::protobuf::io::IstreamInputStream stream(&file);
  ModelFolder folder{path.has_parent_path() ? path.parent_path() : "."};
  if (std::filesystem::is_symlink(path, error))
    folder.linked = std::filesystem::canonical(path, error).parent_path();
  return readStream(stream, name, folder, files, dimensions);
}

void bindDimension(Model &model, const std::string &symbol, int64_t value) {
  if (value <= 0)
    throw Error("dimension '" + symbol + "' bound to " + std::to_string(value) +
                ", expected at least 1");
  bool found = false;
  std::set<std::string> symbols;
  for (auto *values : {&model.inputs, &model.outputs})
    for (ModelValue &entry : *values)
      for (Dimension &dimension : entry.shape) {
        if (dimension.symbol == symbol && !dimension.symbol.empty()) {
          dimension.value = value;
          found = true;
        } else if (!dimension.value) {
          symbols.insert(dimension.symbol);
        }
      }
  if (found)
    return;
  std::string known;
  for (const std::string &name : symbols)
    known += (known.empty() ? "" : ", ") + name;
  throw Error(model.name + ": no dimension '" + symbol + "'; " +
              (known.empty() ? "all are numbers" : "there is " + known));
}

} // namespace pdc
