#include "compiler/onnx/Makers.h"

#include <algorithm>

namespace pdc {

Makers::Makers(const Model &model) {
  for (const ModelNode &node : model.nodes)
    for (const std::string &output : node.outputs)
      makers[output] = &node;
}

const ModelNode *Makers::of(const std::string &value) const {
  auto found = makers.find(value);
  return found == makers.end() ? nullptr : found->second;
}

const ModelNode *Makers::of(const std::string &value, std::string_view op) const {
  const ModelNode *node = of(value);
  return node && node->op == op ? node : nullptr;
}

const std::string &Makers::before(const std::string &value,
                                  std::initializer_list<std::string_view> ops) const {
  const std::string *name = &value;
  for (const ModelNode *node = of(*name);
       node && std::ranges::count(ops, node->op) && !node->inputs.empty(); node = of(*name))
    name = &node->inputs[0];
  return *name;
}

const ModelValue *valueNamed(const std::vector<ModelValue> &values, const std::string &name) {
  auto found = std::ranges::find(values, name, &ModelValue::name);
  return found == values.end() ? nullptr : &*found;
}

std::optional<double> numberNamed(const Model &model, const std::string &initializer) {
  auto found = model.initializers.find(initializer);
  if (found == model.initializers.end() || found->second.type.elementCount() != 1)
    return std::nullopt;
  return readTensor(found->second).data[0];
}

} // namespace pdc
