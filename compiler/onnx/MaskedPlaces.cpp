#include "compiler/onnx/MaskedPlaces.h"

#include <optional>
#include <unordered_map>

namespace pdc {

namespace {

class MaskedPlaces {
public:
  explicit MaskedPlaces(Model &model) : model(model) {
    for (const ModelNode &node : model.nodes)
      for (const std::string &output : node.outputs)
        makers[output] = &node;
  }

  void replace() {
    for (ModelNode &node : model.nodes)
      if (node.op == "ScatterND" && node.inputs.size() == 3 &&
          node.attributes.string("reduction", "none") == "none")
        replace(node);
  }

private:
  const ModelNode *maker(const std::string &value, std::string_view op) const {
    auto found = makers.find(value);
    return found != makers.end() && found->second->op == op && !found->second->inputs.empty()
               ? found->second
               : nullptr;
  }

  /// What `op` makes the value of, or the value.
  const std::string &before(const std::string &value, std::string_view op) const {
    const std::string *name = &value;
    while (const ModelNode *node = maker(*name, op))
      name = &node->inputs[0];
    return *name;
  }

  /// The mask whose places these are, row by row; empty for other indices.
  std::string maskOf(const std::string &indices) const {
    const ModelNode *transposed = maker(indices, "Transpose");
    const ModelNode *places = transposed ? maker(transposed->inputs[0], "NonZero") : nullptr;
    if (!places || transposed->attributes.integers("perm", {1, 0}) != std::vector<int64_t>{1, 0})
      return "";
    return places->inputs[0];
  }

  /// Of a constant, and of a vector of it alone.
  std::optional<double> numberOf(const std::string &value) const {
    const std::string &name = before(value, "Unsqueeze");
    auto found = model.initializers.find(name);
    if (found == model.initializers.end() || found->second.type.elementCount() != 1)
      return std::nullopt;
    return readTensor(found->second).data[0];
  }

  /// The value that is made a vector.
  const std::string *flattened(const std::string &vector) const {
    const ModelNode *node = maker(vector, "Reshape");
    return node && node->inputs.size() == 2 && numberOf(node->inputs[1]) == -1 ? &node->inputs[0]
                                                                               : nullptr;
  }

  /// What is put at the mask's places: `kind` says how pdc.MaskedScatter reads it.
  struct Source {
    std::string name, kind;
  };

  std::optional<Source> sourceOf(const std::string &updates, const std::string &mask) const {
    if (const ModelNode *chosen = maker(updates, "GatherND"))
      return chosen->attributes.integer("batch_dims", 0) == 0 && maskOf(chosen->inputs[1]) == mask
                 ? std::optional<Source>({chosen->inputs[0], "chosen"})
                 : std::nullopt;
    // As many of the source's elements as the mask has.
    const ModelNode *first = maker(updates, "Slice");
    const std::string *all = first && begins(*first) ? flattened(first->inputs[0]) : nullptr;
    if (first)
      return all ? std::optional<Source>({*all, "rows"}) : std::nullopt;
    const std::string *values = flattened(updates);
    const ModelNode *repeated = maker(values ? *values : updates, "Expand");
    if (repeated)
      return Source{repeated->inputs[0], "repeated"};
    return values ? std::optional<Source>({*values, "rows"}) : std::nullopt;
  }

  void replace(ModelNode &node) {
    const std::string mask = maskOf(node.inputs[1]);
    std::optional<Source> source = mask.empty() ? std::nullopt : sourceOf(node.inputs[2], mask);
    if (!source)
      return;
    node.op = "pdc.MaskedScatter";
    node.attributes = {{"kind", source->kind}};
    node.inputs = {node.inputs[0], mask, source->name};
    // Before it was repeated for each element of a row.
    if (const ModelNode *expanded = maker(mask, "Expand"))
      node.inputs.push_back(before(expanded->inputs[0], "Expand"));
  }

  /// A slice of one dimension from 0 on.
  bool begins(const ModelNode &slice) const {
    return slice.inputs.size() >= 3 && slice.inputs.size() <= 4 && numberOf(slice.inputs[1]) == 0;
  }

  Model &model;
  std::unordered_map<std::string, const ModelNode *> makers;
};

} // namespace

void replaceMaskedPlaces(Model &model) { MaskedPlaces(model).replace(); }

} // namespace pdc
