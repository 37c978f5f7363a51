#include "compiler/onnx/ExporterMetadata.h"

#include "compiler/onnx/ProtoFields.h"

#include <algorithm>
#include <sstream>

namespace pdc {

namespace {

/// Numbers of the field `metadata_props`.
constexpr int ofValue = 4, ofNode = 9, ofGraph = 16;

std::string entryOf(const google::protobuf::Message &message, int field, std::string_view key) {
  for (const std::string &entry : messagesOf(message, field))
    if (stringOf(entry, 1) == key)
      return stringOf(entry, 2);
  return "";
}

bool holdsFloatingPoint(const onnx::TensorProto &tensor) {
  const int type = tensor.data_type();
  return type == onnx::TensorProto::FLOAT || type == onnx::TensorProto::FLOAT16 ||
         type == onnx::TensorProto::BFLOAT16 || type == onnx::TensorProto::DOUBLE;
}

bool isOfExporter(const onnx::NodeProto &node) {
  return std::ranges::any_of(messagesOf(node, ofNode), [](const std::string &entry) {
    const std::string key = stringOf(entry, 1);
    return key.starts_with("pkg.torch.") || key.starts_with("pkg.onnxscript.");
  });
}

bool isRewritten(const onnx::NodeProto &node) {
  return !entryOf(node, ofNode, "pkg.onnxscript.rewriter.rule_name").empty();
}

/// A line such as p_fc1_weight: PARAMETER target='fc1.weight'.
struct SignatureLine {
  std::string kind, target;
};

std::vector<SignatureLine> signatureOf(const onnx::GraphProto &graph) {
  constexpr std::string_view separator = ": ", beforeTarget = " target='";
  std::vector<SignatureLine> signature;
  std::istringstream lines(
      entryOf(graph, ofGraph, "pkg.torch.export.ExportedProgram.graph_signature"));
  for (std::string line; std::getline(lines, line);) {
    const size_t kind = line.find(separator), target = line.find(beforeTarget);
    if (kind == std::string::npos || target == std::string::npos || target < kind)
      continue;
    const size_t begin = kind + separator.size(), name = target + beforeTarget.size();
    signature.push_back(
        {line.substr(begin, target - begin), line.substr(name, line.find('\'', name) - name)});
  }
  return signature;
}

class MetadataReader {
public:
  explicit MetadataReader(const onnx::GraphProto &graph)
      : graph(graph), signature(signatureOf(graph)) {
    for (const onnx::TensorProto &tensor : graph.initializer())
      initializers.insert(tensor.name());
  }

  ExporterMetadata read() {
    readKinds();
    if (std::ranges::none_of(metadata.isParameter, [](const auto &known) { return known.second; }))
      return {};
    std::vector<std::string> missing;
    for (const SignatureLine &line : signature)
      if (line.kind == "PARAMETER" && !initializers.contains(line.target))
        missing.push_back(line.target);
    findFolded(!missing.empty());
    if (!metadata.folded.empty() || std::ranges::any_of(graph.node(), isRewritten))
      metadata.lostParameters = std::move(missing);
    return std::move(metadata);
  }

private:
  void readKinds() {
    for (const auto *values : {&graph.value_info(), &graph.input()})
      for (const onnx::ValueInfoProto &value : *values) {
        if (!initializers.contains(value.name()))
          continue;
        if (std::string kind =
                entryOf(value, ofValue, "pkg.torch.export.graph_signature.InputSpec.kind");
            !kind.empty())
          metadata.isParameter[value.name()] = kind == "PARAMETER";
        if (!entryOf(value, ofValue, "pkg.onnxscript.optimizer.folded_from").empty())
          declaredFolded.insert(value.name());
      }
    for (const SignatureLine &line : signature)
      if (initializers.contains(line.target))
        metadata.isParameter.emplace(line.target, line.kind == "PARAMETER");
  }

  /// A tensor that the exporter says nothing of is one that it folded, or was added later, with
  /// the nodes that read it. Where nodes do not tell, a signature of which nothing is missing does.
  void findFolded(bool isMissing) {
    std::set<std::string> readByExported;
    for (const onnx::NodeProto &node : graph.node())
      if (isOfExporter(node))
        readByExported.insert(node.input().begin(), node.input().end());
    const bool areAllFolded = readByExported.empty() && (isMissing || signature.empty());
    for (const onnx::TensorProto &tensor : graph.initializer())
      if (const std::string &name = tensor.name();
          holdsFloatingPoint(tensor) && tensor.dims_size() > 0 &&
          !metadata.isParameter.contains(name) &&
          (areAllFolded || declaredFolded.contains(name) || readByExported.contains(name)))
        metadata.folded.insert(name);
  }

  const onnx::GraphProto &graph;
  std::vector<SignatureLine> signature;
  std::set<std::string> initializers, declaredFolded;
  ExporterMetadata metadata;
};

} // namespace

ExporterMetadata readExporterMetadata(const onnx::GraphProto &graph) {
  return MetadataReader(graph).read();
}

} // namespace pdc
