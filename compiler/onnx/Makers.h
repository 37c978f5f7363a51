#pragma once

#include "compiler/onnx/Model.h"

#include <optional>
#include <string_view>
#include <unordered_map>

namespace pdc {

/// What makes the values of a model. Of the model as it is when this is made: nodes may change in
/// place, not move.
class Makers {
public:
  explicit Makers(const Model &model);

  /// Null for inputs and initializers.
  const ModelNode *of(const std::string &value) const;
  /// Null where another operator makes it.
  const ModelNode *of(const std::string &value, std::string_view op) const;
  /// What stands before nodes of these operators, one behind the other: their first inputs.
  const std::string &before(const std::string &value,
                            std::initializer_list<std::string_view> ops) const;

private:
  std::unordered_map<std::string, const ModelNode *> makers;
};

/// Of a model's inputs or outputs; null: none is named so.
const ModelValue *valueNamed(const std::vector<ModelValue> &values, const std::string &name);

/// The initializer where it is one number.
std::optional<double> numberNamed(const Model &model, const std::string &initializer);

} // namespace pdc
