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

/// Constant folding leaves tensors that the exporter says nothing of, its rewriting rules their
/// names.
bool isOptimized(const onnx::GraphProto &graph, const std::map<std::string, bool> &known) {
  return std::ranges::any_of(graph.initializer(),
                             [&](const onnx::TensorProto &tensor) {
                               return tensor.data_type() == onnx::TensorProto::FLOAT &&
                                      tensor.dims_size() > 0 && !known.contains(tensor.name());
                             }) ||
         std::ranges::any_of(graph.node(), [](const onnx::NodeProto &node) {
           return !entryOf(node, ofNode, "pkg.onnxscript.rewriter.rule_name").empty();
         });
}

/// Of a line such as p_fc1_weight: PARAMETER target='fc1.weight'.
std::string parameterOf(const std::string &line) {
  constexpr std::string_view begin = ": PARAMETER target='";
  size_t at = line.find(begin);
  if (at == std::string::npos)
    return "";
  at += begin.size();
  return line.substr(at, line.find('\'', at) - at);
}

} // namespace

ExporterMetadata readExporterMetadata(const onnx::GraphProto &graph) {
  ExporterMetadata metadata;
  for (const auto *values : {&graph.value_info(), &graph.input()})
    for (const onnx::ValueInfoProto &value : *values)
      if (std::string kind =
              entryOf(value, ofValue, "pkg.torch.export.graph_signature.InputSpec.kind");
          !kind.empty())
        metadata.isParameter[value.name()] = kind == "PARAMETER";
  if (metadata.isParameter.empty() || !isOptimized(graph, metadata.isParameter))
    return metadata;
  std::istringstream lines(
      entryOf(graph, ofGraph, "pkg.torch.export.ExportedProgram.graph_signature"));
  for (std::string line; std::getline(lines, line);)
    if (std::string name = parameterOf(line); !name.empty() && !metadata.isParameter.contains(name))
      metadata.lostParameters.push_back(name);
  return metadata;
}

} // namespace pdc
