#include "compiler/onnx/ExporterMetadata.h"

#include "compiler/onnx/ProtoFields.h"

#include <algorithm>
#include <ranges>
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

/// Of a list as Python writes it: ['', 'encoder.0', 'linear_2'].
std::vector<std::string> quotedIn(const std::string &list) {
  std::vector<std::string> found;
  for (size_t begin = list.find('\''); begin != std::string::npos;) {
    const size_t end = list.find('\'', begin + 1);
    if (end == std::string::npos)
      break;
    found.push_back(list.substr(begin + 1, end - begin - 1));
    begin = list.find('\'', end + 1);
  }
  return found;
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

/// What the node's call in the exported program is given, as in "%p_weight, %ids, 0"; empty where
/// it is another function's.
std::string argumentsOf(const onnx::NodeProto &node, const std::string &function) {
  const std::string call = entryOf(node, ofNode, "pkg.torch.onnx.fx_node"),
                    beginning = "call_function[target=torch.ops.aten." + function + "](args = (";
  const size_t begin = call.find(beginning);
  if (begin == std::string::npos)
    return "";
  const size_t first = begin + beginning.size();
  return call.substr(first, call.find(')', first) - first);
}

/// The values that the node's call writes into, by `out` or in their place, where the node makes
/// its result.
std::set<std::string> writtenBy(const onnx::NodeProto &node) {
  std::set<std::string> written;
  const std::string call = entryOf(node, ofNode, "pkg.torch.onnx.fx_node");
  if (node.output_size() == 0 || !call.starts_with("%" + node.output(0) + " :"))
    return written;
  const std::string trace = entryOf(node, ofNode, "pkg.torch.onnx.stack_trace");
  for (std::string_view before : {"out = ", "_.default(", "_.Tensor(", "_.Scalar("})
    for (size_t at = trace.find(before); at != std::string::npos; at = trace.find(before, at + 1)) {
      const size_t begin = at + before.size();
      written.insert(trace.substr(begin, trace.find_first_of(",)", begin) - begin));
    }
  return written;
}

bool isRewritten(const onnx::NodeProto &node) {
  return !entryOf(node, ofNode, "pkg.onnxscript.rewriter.rule_name").empty();
}

/// A line such as p_fc1_weight: PARAMETER target='fc1.weight'.
struct SignatureLine {
  std::string value, kind, target;
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
    signature.push_back({line.substr(0, kind), line.substr(begin, target - begin),
                         line.substr(name, line.find('\'', name) - name)});
  }
  return signature;
}

ExportedKind kindNamed(std::string_view name) {
  return name == "PARAMETER"         ? ExportedKind::parameter
         : name == "CONSTANT_TENSOR" ? ExportedKind::constant
                                     : ExportedKind::buffer;
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
    readNextBuffers();
    if (std::ranges::count(std::views::values(metadata.kinds), ExportedKind::parameter) == 0)
      return {.changedBuffers = std::move(metadata.changedBuffers),
              .nextBuffers = std::move(metadata.nextBuffers)};
    std::vector<std::string> missing;
    for (const SignatureLine &line : signature)
      if (line.kind == "PARAMETER" && !initializers.contains(line.target))
        missing.push_back(line.target);
    findFolded(!missing.empty());
    findSources();
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
          metadata.kinds[value.name()] = kindNamed(kind);
        if (std::string from = entryOf(value, ofValue, "pkg.onnxscript.optimizer.folded_from");
            !from.empty())
          declaredFolded[value.name()] = std::move(from);
      }
    for (const SignatureLine &line : signature)
      if (initializers.contains(line.target))
        metadata.kinds.emplace(line.target, kindNamed(line.kind));
  }

  /// Lines such as add_3: BUFFER_MUTATION target='mean' name the last values; of those before it,
  /// where a layer is called more than once, the program tells that they are written there.
  void readNextBuffers() {
    for (const SignatureLine &line : signature)
      if (line.kind == "BUFFER_MUTATION") {
        metadata.nextBuffers.insert(line.value);
        metadata.changedBuffers.insert(line.target);
      }
    std::set<std::string> changed;
    for (const SignatureLine &line : signature)
      if (line.kind == "BUFFER" && metadata.changedBuffers.contains(line.target))
        changed.insert(line.value);
    for (size_t i = 0; !changed.empty() && i < size_t(graph.node_size()); ++i)
      if (const onnx::NodeProto &node = graph.node(int(i));
          std::ranges::any_of(writtenBy(node), [&](auto &name) { return changed.contains(name); }))
        metadata.nextBuffers.insert(node.output(0));
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
          holdsFloatingPoint(tensor) && tensor.dims_size() > 0 && !metadata.kinds.contains(name) &&
          (areAllFolded || declaredFolded.contains(name) || readByExported.contains(name)))
        metadata.folded.insert(name);
  }

  /// What a tensor was folded from is told whole, with what that was folded from; which of it were
  /// parameters only the signature tells, where they are no initializers any more.
  void findSources() {
    std::set<std::string> parameters;
    for (const SignatureLine &line : signature)
      if (line.kind == "PARAMETER")
        parameters.insert(line.target);
    auto isParameter = [&](const std::string &name) { return parameters.contains(name); };
    for (const auto &[name, from] : declaredFolded) {
      const std::vector<std::string> sources = quotedIn(from);
      for (const std::string &source : sources)
        if (metadata.kindOf(source) == ExportedKind::parameter)
          metadata.foldedFrom[name] = source;
      if (!signature.empty() && std::ranges::none_of(sources, isParameter))
        metadata.ofNoParameter.insert(name);
    }
  }

  const onnx::GraphProto &graph;
  std::vector<SignatureLine> signature;
  std::set<std::string> initializers;
  std::map<std::string, std::string> declaredFolded; ///< and of what, as in "['weight', 'val_3']"
  ExporterMetadata metadata;
};

} // namespace

void nameByModules(onnx::GraphProto &graph) {
  for (onnx::NodeProto &node : *graph.mutable_node()) {
    // The network itself, its modules from the outermost on, and the call.
    const std::vector<std::string> scopes =
        quotedIn(entryOf(node, ofNode, "pkg.torch.onnx.name_scopes"));
    if (scopes.size() < 3 || scopes.end()[-2].empty() || node.name().empty())
      continue;
    constexpr std::string_view prefix = "node_"; // says nothing behind a path
    const bool hasPrefix = node.name().starts_with(prefix) && node.name().size() > prefix.size();
    node.set_name(scopes.end()[-2] + "/" + node.name().substr(hasPrefix ? prefix.size() : 0));
  }
}

bool isClamp(const onnx::NodeProto &node) {
  return (node.op_type() == "Max" || node.op_type() == "Min") &&
         entryOf(node, ofNode, "pkg.torch.onnx.class_hierarchy").find("'aten.clamp") !=
             std::string::npos;
}

bool squeezesWhereOne(const onnx::NodeProto &node) {
  return node.op_type() == "Squeeze" &&
         entryOf(node, ofNode, "pkg.torch.onnx.class_hierarchy").find("'aten.squeeze") !=
             std::string::npos;
}

bool isDetach(const onnx::NodeProto &node) {
  return node.op_type() == "Identity" && node.domain().empty() &&
         !argumentsOf(node, "detach.default").empty();
}

std::optional<int64_t> paddingRow(const onnx::NodeProto &node) {
  if (node.op_type() != "Gather" || !node.domain().empty())
    return std::nullopt;
  std::istringstream arguments(argumentsOf(node, "embedding.default"));
  std::string table, indices;
  int64_t row = -1;
  char comma = 0;
  if (!(arguments >> table >> indices >> row) || row < 0 || !(arguments >> comma).fail())
    return std::nullopt;
  return row;
}

ExporterMetadata readExporterMetadata(const onnx::GraphProto &graph) {
  return MetadataReader(graph).read();
}

} // namespace pdc
