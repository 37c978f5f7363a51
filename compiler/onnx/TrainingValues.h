#pragma once

#include "compiler/onnx/FlattenFunctions.h"
#include "compiler/onnx/TrainingInfo.h"

namespace pdc {

/// Whether the node is one of ONNX's own operators, with so many inputs.
bool isPlain(const onnx::NodeProto *node, std::string_view op, int inputs);

/// The values that these depend on, themselves included. Nodes stand in order.
std::set<std::string> dependenciesOf(const std::vector<FlatNode> &nodes,
                                     std::set<std::string> values);

/// Where the values of training_info's algorithm come from, and the numbers that its updates read.
/// All stay where they are as long as this lives.
class TrainingValues {
public:
  TrainingValues(const TrainingInfo &info, const std::vector<FlatNode> &nodes, const Model &model);

  /// The node that makes a value, as which of its outputs; no node for what is given.
  struct Producer {
    const onnx::NodeProto *node = nullptr;
    int output = 0;
  };
  Producer producerOf(const std::string &value) const;
  bool isInput(const std::string &value) const { return inputs.contains(value); }
  /// A state variable whose next value is itself plus one.
  bool isCounter(const std::string &variable) const;

  /// The readers below throw Error, in which `where` is the node that reads.

  /// Nothing for a learning rate that is given while training runs.
  std::optional<double> rateOf(const std::string &name, const std::string &where) const;
  /// The count of updates before the first one. Where the rule does not use it any number will do.
  double countOf(const std::string &name, const std::string &where, bool isUsed) const;
  /// What all elements of an optimizer's state of a weight begin as.
  double stateOf(const std::string &name, const std::string &weight,
                 const std::string &where) const;

private:
  std::optional<Tensor> findNumber(const std::string &name) const;
  std::optional<ModelValue> findGiven(const std::string &name) const;
  std::string complaintOf(const std::string &name, bool isRate) const;

  const TrainingInfo &info;
  const Model &model;
  std::map<std::string, Producer> producers;
  std::map<std::string, const ModelValue *> inputs;
  std::set<std::string> forward; ///< what the loss and the graph's outputs depend on
};

} // namespace pdc
