#include "compiler/onnx/FlattenFunctions.h"

#include "compiler/onnx/Branches.h"
#include "compiler/onnx/KnownAttributes.h"
#include "compiler/onnx/NodeAttributes.h"
#include "compiler/onnx/PipelineStages.h"
#include "compiler/onnx/ProtoFields.h"
#include "compiler/onnx/Scans.h"
#include "compiler/onnx/SortNodes.h"
#include "compiler/onnx/TrainingInfo.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace pdc {

std::string describe(const onnx::NodeProto &node) {
  std::string where = "node '" + node.name() + "'";
  if (node.name().empty())
    where = node.output_size() ? "the node that makes '" + node.output(0) + "'" : "a node";
  return where + " (" + (node.domain().empty() ? "" : node.domain() + "::") + node.op_type() + ")";
}

std::string canonicalDomain(const std::string &domain) { return domain == "ai.onnx" ? "" : domain; }

namespace {

using Opsets = std::map<std::string, int64_t>;

template <typename List> Opsets readOpsets(const List &imports) {
  Opsets opsets;
  for (const auto &import : imports) {
    const std::string domain = canonicalDomain(import.domain());
    auto [known, isNew] = opsets.emplace(domain, import.version());
    if (!isNew && known->second != import.version())
      throw Error("operator set '" + (domain.empty() ? "ai.onnx" : domain) +
                  "' is imported as versions " + std::to_string(known->second) + " and " +
                  std::to_string(import.version()) + ", expected one");
  }
  return opsets;
}

/// What one call gives to the body of its function.
struct Call {
  std::string name;
  std::map<std::string, std::string> values;
  std::map<std::string, onnx::AttributeProto> attributes;
};

class Flattener {
public:
  Flattener(onnx::ModelProto &model, Names &values)
      : model(model), values(values), opsets(readOpsets(model.opset_import())),
        configurations(readConfigurations(model)) {
    for (const onnx::FunctionProto &function : model.functions())
      if (!functions.emplace(std::pair(canonicalDomain(function.domain()), function.name()), &function).second)
        throw Error("function '" + function.domain() + "::" + function.name() +
                    "' is there twice; overloads are not supported");
    for (const onnx::NodeProto &node : model.graph().node())
      for (const std::string &output : node.output())
        values.insert(output);
  }

  std::vector<FlatNode> run() {
    for (onnx::NodeProto &node : *model.mutable_graph()->mutable_node())
      add(std::move(node), opsets, {}, 0);
    return std::move(nodes);
  }

private:
  using Stages = std::map<std::string, int>;

  /// A node of a function has the stages of the call where it has none itself.
  void add(onnx::NodeProto node, const Opsets &imported, const Stages &ofCall, int depth) {
    Stages stages = readStages(node, configurations);
    stages.insert(ofCall.begin(), ofCall.end());
    std::string domain = canonicalDomain(node.domain());
    node.set_domain(domain);
    auto function = functions.find({domain, node.op_type()});
    if (function != functions.end())
      return expand(node, *function->second, stages, depth + 1);
    if (domain.empty() && hasBranches(node))
      return addBranches(node, imported, stages, depth + 1);
    if (domain.empty() && hasBody(node))
      return addLoop(node, imported, stages, depth + 1);
    auto version = imported.find(domain);
    if (domain.empty() && version != imported.end() && hasScannedBody(node, version->second))
      return addScan(node, imported, stages, depth + 1);
    // Files of IR 1 and 2 name no operator sets: all of it is version 1.
    int64_t opset = version != imported.end() ? version->second : model.ir_version() < 3 ? 1 : 0;
    if (opset < 0 || opset > 1000000)
      opset = 0;
    checkAttributesKnown(node, opset);
    nodes.push_back({std::move(node), static_cast<int>(opset), std::move(stages)});
  }

  void addInitializers(std::vector<onnx::NodeProto> &constants, const Stages &stages) {
    for (onnx::NodeProto &constant : constants)
      nodes.push_back({std::move(constant), 13, stages, false, nullptr, true});
  }

  void addBranches(onnx::NodeProto &node, const Opsets &imported, const Stages &stages, int depth) {
    checkDepth(node, depth);
    FlatNode select{{}, 0, stages, true};
    select.proto.set_name(node.name());
    select.proto.set_op_type(node.op_type());
    select.proto.add_input(node.input(0));
    *select.proto.mutable_output() = node.output();
    for (const char *name : {"then_branch", "else_branch"}) {
      onnx::GraphProto branch = attributeOf(node, name)->g();
      if (branch.input_size() || branch.output_size() != node.output_size())
        throw Error(describe(node) + ": its " + name + " has " +
                    std::to_string(branch.input_size()) + " inputs and " +
                    std::to_string(branch.output_size()) + " outputs, expected none and " +
                    std::to_string(node.output_size()));
      Branch taken =
          takeBranch(branch, [this](const std::string &inner) { return values.fresh(inner); });
      for (const std::string &output : taken.outputs)
        select.proto.add_input(output);
      addInitializers(taken.initializers, stages);
      for (onnx::NodeProto &inner : taken.nodes)
        add(std::move(inner), imported, stages, depth);
    }
    nodes.push_back(std::move(select));
  }

  void addLoop(onnx::NodeProto &node, const Opsets &imported, const Stages &stages, int depth) {
    checkDepth(node, depth);
    onnx::GraphProto graph = attributeOf(node, "body")->g();
    checkLoop(node, graph);
    auto body = std::make_shared<LoopBody>();
    std::map<std::string, std::string> own;
    Branch taken =
        takeBranch(graph, [&](const std::string &name) { return own[name] = values.fresh(name); });
    body->outputs = std::move(taken.outputs);
    for (const onnx::ValueInfoProto &input : graph.input())
      body->inputs.push_back(own[input.name()]);
    // Each is one tensor, however often the body is repeated.
    addInitializers(taken.initializers, stages);
    std::vector<FlatNode> around = std::exchange(nodes, {});
    for (onnx::NodeProto &repeated : taken.nodes)
      add(std::move(repeated), imported, stages, depth);
    std::swap(nodes, around);
    // Constants, which may be large, stand before the Loop and are repeated nowhere.
    for (FlatNode &repeated : around)
      (repeated.proto.op_type() == "Constant" ? nodes : body->nodes).push_back(std::move(repeated));
    FlatNode loop{{}, 0, stages};
    loop.proto.set_name(node.name());
    loop.proto.set_op_type(node.op_type());
    for (int i = 0; i < graph.input_size(); ++i)
      loop.proto.add_input(i < node.input_size() ? node.input(i) : "");
    *loop.proto.mutable_output() = node.output();
    addCaptured(loop.proto, *body);
    loop.body = std::move(body);
    nodes.push_back(std::move(loop));
  }

  void addScan(const onnx::NodeProto &node, const Opsets &imported, const Stages &stages,
               int depth) {
    ScanAsLoop scan =
        loopOfScan(node, [this](const std::string &name) { return values.fresh(name); });
    for (onnx::NodeProto &before : scan.before)
      nodes.push_back({std::move(before), 13, stages});
    addLoop(scan.loop, imported, stages, depth);
    for (onnx::NodeProto &after : scan.after)
      nodes.push_back({std::move(after), 13, stages});
  }

  static void checkLoop(const onnx::NodeProto &node, const onnx::GraphProto &body) {
    if (body.input_size() < 2 || node.input_size() > body.input_size() ||
        body.output_size() < body.input_size() - 1 || node.output_size() > body.output_size() - 1)
      throw Error(describe(node) + ": its body has " + std::to_string(body.input_size()) +
                  " inputs and " + std::to_string(body.output_size()) + " outputs, the node " +
                  std::to_string(node.input_size()) + " and " + std::to_string(node.output_size()) +
                  ", which do not fit");
  }

  /// Sorts the body, and gives the Loop what that reads of the graph around it.
  static void addCaptured(onnx::NodeProto &loop, LoopBody &body) {
    std::set<std::string> made;
    for (const FlatNode &inner : body.nodes)
      made.insert(inner.proto.output().begin(), inner.proto.output().end());
    body.nodes = sortNodes(std::move(body.nodes),
                           [&](const std::string &name) { return !made.contains(name); });
    std::set<std::string> known(body.inputs.begin(), body.inputs.end());
    known.merge(made);
    auto capture = [&](const std::string &name) {
      if (!name.empty() && known.insert(name).second)
        loop.add_input(name);
    };
    for (const FlatNode &inner : body.nodes)
      for (const std::string &input : inner.proto.input())
        capture(input);
    for (const std::string &output : body.outputs)
      capture(output);
  }

  static void checkDepth(const onnx::NodeProto &node, int depth) {
    constexpr int maximumDepth = 64;
    if (depth > maximumDepth)
      throw Error(describe(node) + ": functions call each other more than " +
                  std::to_string(maximumDepth) + " deep, or themselves");
  }

  void expand(const onnx::NodeProto &node, const onnx::FunctionProto &function,
              const Stages &stages, int depth) {
    checkDepth(node, depth);
    Call call = bind(node, function);
    Opsets imported = readOpsets(function.opset_import());
    for (const onnx::NodeProto &inner : function.node())
      add(instantiate(inner, call), imported, stages, depth);
    for (int i = 0; i < std::min(function.output_size(), node.output_size()); ++i)
      connect(call, function.output(i), node.output(i));
  }

  Call bind(const onnx::NodeProto &node, const onnx::FunctionProto &function) {
    if (node.input_size() > function.input_size() || node.output_size() > function.output_size())
      throw Error(describe(node) + ": calls a function of " +
                  std::to_string(function.input_size()) + " inputs and " +
                  std::to_string(function.output_size()) + " outputs with " +
                  std::to_string(node.input_size()) + " and " + std::to_string(node.output_size()));
    Call call{calls.fresh(node.name().empty() ? node.op_type() : node.name()), {}, {}};
    for (int i = 0; i < function.input_size(); ++i)
      call.values[function.input(i)] = i < node.input_size() ? node.input(i) : "";
    std::set<std::string> inner;
    for (const onnx::NodeProto &body : function.node())
      inner.insert(body.output().begin(), body.output().end());
    for (int i = 0; i < node.output_size(); ++i)
      if (inner.contains(function.output(i)) && !node.output(i).empty())
        call.values.emplace(function.output(i), node.output(i));
    bindAttributes(node, function, call);
    return call;
  }

  /// FunctionProto.attribute_proto, of IR 9 on: attributes with what they are where a call says
  /// nothing.
  static constexpr int kDefaultAttributes = 11;

  static void bindAttributes(const onnx::NodeProto &node, const onnx::FunctionProto &function,
                             Call &call) {
    for (const std::string &bytes : messagesOf(function, kDefaultAttributes)) {
      onnx::AttributeProto attribute;
      if (!attribute.ParseFromString(bytes))
        throw Error("function '" + function.name() + "': the default of an attribute is damaged");
      call.attributes[attribute.name()] = attribute;
    }
    for (const onnx::AttributeProto &attribute : node.attribute()) {
      if (!call.attributes.contains(attribute.name()) &&
          std::ranges::find(function.attribute(), attribute.name()) == function.attribute().end())
        throw Error(describe(node) + ": attribute '" + attribute.name() +
                    "' is none of the function's that it calls");
      call.attributes[attribute.name()] = attribute;
    }
  }

  /// One node of the body, with the call's names, values and attributes.
  onnx::NodeProto instantiate(const onnx::NodeProto &inner, Call &call) {
    onnx::NodeProto node = inner;
    node.set_name(call.name + "/" + (inner.name().empty() ? inner.op_type() : inner.name()));
    for (std::string &input : *node.mutable_input())
      input = valueOf(call, input);
    for (std::string &output : *node.mutable_output())
      output = valueOf(call, output);
    giveAttributes(node, call.attributes);
    renameCaptured(node, [&](const std::string &name) { return valueOf(call, name); });
    if (node.domain() == trainingDomain && node.op_type() == "Gradient")
      renameValues(node, call);
    checkSize(node, call);
    return node;
  }

  /// Attributes of Gradient name values.
  void renameValues(onnx::NodeProto &node, Call &call) {
    for (onnx::AttributeProto &attribute : *node.mutable_attribute()) {
      if (attribute.has_s())
        attribute.set_s(valueOf(call, attribute.s()));
      for (std::string &name : *attribute.mutable_strings())
        name = valueOf(call, name);
    }
  }

  void checkSize(const onnx::NodeProto &node, const Call &call) {
    constexpr size_t maximumNodes = 1000000, maximumBytes = size_t(256) << 20;
    expandedBytes += node.ByteSizeLong();
    if (++expandedNodes > maximumNodes || expandedBytes > maximumBytes)
      throw Error("function call '" + call.name + "': the model's functions expand to more than " +
                  std::to_string(maximumNodes) + " nodes or " + std::to_string(maximumBytes >> 20) +
                  " MiB");
  }

  std::string valueOf(Call &call, const std::string &name) {
    if (name.empty())
      return name;
    auto [entry, isNew] = call.values.try_emplace(name);
    if (isNew)
      entry->second = values.fresh(call.name + "/" + name);
    return entry->second;
  }

  /// A function may hand out an input, or one value twice.
  void connect(Call &call, const std::string &inner, const std::string &outer) {
    auto known = call.values.find(inner);
    if (outer.empty() || (known != call.values.end() && known->second == outer))
      return;
    onnx::NodeProto copy;
    copy.set_op_type("Identity");
    copy.set_name(call.name + "/" + inner);
    copy.add_input(valueOf(call, inner));
    copy.add_output(outer);
    nodes.push_back({std::move(copy), 14});
  }

  onnx::ModelProto &model;
  Names &values;
  Opsets opsets;
  std::vector<ModelPartition> configurations;
  std::map<std::pair<std::string, std::string>, const onnx::FunctionProto *> functions;
  Names calls;
  std::vector<FlatNode> nodes;
  size_t expandedNodes = 0;
  size_t expandedBytes = 0;
};

} // namespace

std::vector<FlatNode> flattenFunctions(onnx::ModelProto &model, Names &values) {
  return Flattener(model, values).run();
}

} // namespace pdc
