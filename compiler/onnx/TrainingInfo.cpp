#include "compiler/onnx/TrainingInfo.h"

#include "compiler/onnx/FlattenFunctions.h"

namespace pdc {

using Bindings = google::protobuf::RepeatedPtrField<onnx::StringStringEntryProto>;

static void addBindings(const Bindings &entries, const std::string &what,
                        std::map<std::string, std::string> &bindings) {
  for (const onnx::StringStringEntryProto &entry : entries)
    if (!bindings.emplace(entry.key(), entry.value()).second)
      throw Error("training_info: " + what + " of '" + entry.key() + "' is there twice");
}

template <class Entry> static void appendAll(Entry &from, Entry &to) {
  for (auto &element : from)
    *to.Add() = std::move(element);
}

/// What a graph has under each name. Initializers may be listed as inputs too.
static std::map<std::string, std::string> kindsOfNames(const onnx::GraphProto &graph) {
  std::map<std::string, std::string> kinds;
  for (const onnx::TensorProto &initializer : graph.initializer())
    kinds.emplace(initializer.name(), "an initializer");
  for (const onnx::ValueInfoProto &input : graph.input())
    kinds.emplace(input.name(), "an input");
  for (const onnx::NodeProto &node : graph.node())
    for (const std::string &output : node.output())
      kinds.emplace(output, "an output of " + describe(node));
  kinds.erase("");
  return kinds;
}

/// Inference must stay possible without training: its nodes read nothing of the algorithm's, which
/// has its own names.
static void checkInference(const onnx::GraphProto &graph, const onnx::GraphProto &algorithm) {
  const std::map<std::string, std::string> ofGraph = kindsOfNames(graph),
                                           ofAlgorithm = kindsOfNames(algorithm);
  for (const auto &[name, kind] : ofAlgorithm)
    if (auto same = ofGraph.find(name); same != ofGraph.end())
      throw Error("training_info: '" + name + "' is " + kind + " of the algorithm, but also " +
                  same->second +
                  " of the graph, which the algorithm reads by this name; leave it out of the "
                  "algorithm, or rename it there");
  for (const onnx::NodeProto &node : graph.node())
    for (const std::string &input : node.input())
      if (ofAlgorithm.contains(input))
        throw Error(describe(node) + " of the graph reads '" + input +
                    "' of training_info's algorithm; only the reverse is allowed");
}

static void appendAlgorithm(onnx::GraphProto &algorithm, onnx::GraphProto &graph,
                            TrainingInfo &info) {
  checkInference(graph, algorithm);
  if (algorithm.sparse_initializer_size())
    throw Error("training_info: sparse initializers are not supported; export them dense");
  for (const onnx::ValueInfoProto &input : algorithm.input())
    info.inputs.insert(input.name());
  appendAll(*algorithm.mutable_input(), *graph.mutable_input());
  appendAll(*algorithm.mutable_initializer(), *graph.mutable_initializer());
  appendAll(*algorithm.mutable_node(), *graph.mutable_node());
  appendAll(*algorithm.mutable_value_info(), *graph.mutable_value_info());
  for (const onnx::ValueInfoProto &output : algorithm.output())
    info.outputs.insert(output.name());
}

static void appendInitialization(onnx::TrainingInfoProto &proto, TrainingInfo &info) {
  addBindings(proto.initialization_binding(), "the initialization_binding", info.initialization);
  onnx::GraphProto &initial = *proto.mutable_initialization();
  if (initial.input_size())
    throw Error("training_info: the initialization has an input '" + initial.input(0).name() +
                "', expected none");
  appendAll(*initial.mutable_initializer(), *info.initial.mutable_initializer());
  appendAll(*initial.mutable_node(), *info.initial.mutable_node());
}

std::optional<TrainingInfo> takeTrainingInfo(onnx::ModelProto &model) {
  if (!model.training_info_size())
    return std::nullopt;
  TrainingInfo info;
  for (const onnx::ValueInfoProto &output : model.graph().output())
    info.outputs.insert(output.name());
  int algorithms = 0;
  for (onnx::TrainingInfoProto &proto : *model.mutable_training_info()) {
    appendInitialization(proto, info);
    addBindings(proto.update_binding(), "the update_binding", info.updates);
    appendAlgorithm(*proto.mutable_algorithm(), *model.mutable_graph(), info);
    algorithms += proto.update_binding_size() > 0;
  }
  if (algorithms > 1)
    throw Error("training_info: " + std::to_string(algorithms) +
                " algorithms, which a user would call in turns, are not supported; expected one "
                "with update_bindings");
  model.clear_training_info();
  return info;
}

} // namespace pdc
