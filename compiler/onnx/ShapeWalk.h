#pragma once

#include "compiler/onnx/Binding.h"

namespace pdc {

/// Walks nodes in order; knows the type of each value, and the elements of small constants.
class ShapeWalk {
public:
  ShapeWalk(const Model &model, const Binding &binding);

  /// A node whose operands were made before. Throws Error where its operator's rule refuses it.
  void add(const ModelNode &node);

  /// Of what the nodes so far made, an input or an initializer. Throws Error for anything else.
  const TensorType &typeOf(const std::string &name);

  /// Its elements, where they are known; nullptr elsewhere.
  const Tensor *constantOf(const std::string &name) const;

private:
  const TensorType &addInitializer(const Initializer &initializer);
  /// Of an initializer that an operator asks for when it is compiled, such as scales, though others
  /// like it are trained; nullptr for anything else.
  const Tensor *askedOf(const std::string &name);
  void evaluate(const Operator &rules, const ModelNode &node, const NodeView &view,
                const std::vector<const Tensor *> &known);

  const Model &model;
  const Binding &binding;
  std::map<std::string, const ModelValue *> inputs;
  std::map<std::string, TensorType> types;
  std::map<std::string, Tensor> constants, asked;
};

} // namespace pdc
