#pragma once

#include "compiler/onnx/FlattenFunctions.h"
#include "compiler/onnx/Model.h"

#include <functional>
#include <optional>

namespace pdc {

/// Exporters write a split whose parts are taken one by one, tensors that are joined, and what the
/// iterations of a Loop append to a list, as sequences. Sequences of which a graph says how long
/// they are, and which element is read where, become tensors: Split or Slice, and Concat.
class SequenceReplacement {
public:
  /// A number that a node reads, where shapes and constants say it.
  using Known = std::function<std::optional<double>(const FlatNode &, const std::string &)>;

  /// For these nodes, which may have none.
  SequenceReplacement(const std::vector<FlatNode> &nodes, Names &values,
                      const onnx::GraphProto &graph, const Model &model);
  ~SequenceReplacement();

  /// What takes the place of a node behind those before; itself where it is of no sequence that is
  /// known. Throws Error, naming the node, where an element is read that is not there; where only
  /// shapes can tell, the Slice in its place refuses to be empty.
  std::vector<FlatNode> replace(FlatNode node, const Known &known = {});

  bool isEmpty(const std::string &sequence) const;
  /// A sequence of the rows of a tensor, each a tensor of one row.
  void addRows(const std::string &sequence, const std::string &tensor);

  /// What says which element the node reads, inserts or takes out; null where nothing does.
  static const std::string *placeOf(const onnx::NodeProto &node);

private:
  class Sequences;
  std::unique_ptr<Sequences> sequences;
};

} // namespace pdc
