#pragma once

#include "compiler/onnx/FlattenFunctions.h"
#include "compiler/onnx/Model.h"

#include <memory>

namespace pdc {

/// Turns sorted protobuf nodes into a model's nodes: attributes checked, constants and
/// ConstantOfShape made initializers, opset differences removed by the operators' own rules.
/// `values` are all names of values. Reads and extends `model.initializers`, appends to
/// `model.nodes`.
class NodeReader {
public:
  NodeReader(Names &values, const ModelFolder &folder, Model &model);
  ~NodeReader();

  /// Takes what it needs of the node.
  void read(FlatNode &node);
  /// The initializer that a value is another name of, or the value.
  const std::string &resolve(const std::string &name) const;
  /// After the last: throws Error for an output of the model that was left out.
  void checkOutputs() const;

private:
  class Reading;
  std::unique_ptr<Reading> reading;
};

} // namespace pdc
