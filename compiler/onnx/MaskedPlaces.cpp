#include "compiler/onnx/MaskedPlaces.h"

#include "compiler/onnx/Makers.h"

namespace pdc {

namespace {

class MaskedPlaces {
public:
  explicit MaskedPlaces(Model &model) : model(model), makers(model) {}

  void replace() {
    for (ModelNode &node : model.nodes)
      if (node.op == "ScatterND" && node.inputs.size() == 3 &&
          node.attributes.string("reduction", "none") == "none")
        replace(node);
  }

private:
  /// The mask whose places these are, row by row; empty for other indices.
  std::string maskOf(const std::string &indices) const {
    const ModelNode *transposed = makers.of(indices, "Transpose");
    const ModelNode *places = transposed ? makers.of(transposed->inputs[0], "NonZero") : nullptr;
    if (!places || transposed->attributes.integers("perm", {1, 0}) != std::vector<int64_t>{1, 0})
      return "";
    return places->inputs[0];
  }

  /// Of a constant, and of a vector of it alone.
  std::optional<double> numberOf(const std::string &value) const {
    return numberNamed(model, makers.before(value, {"Unsqueeze"}));
  }

  /// The value that is made a vector.
  const std::string *flattened(const std::string &vector) const {
    const ModelNode *node = makers.of(vector, "Reshape");
    return node && node->inputs.size() == 2 && numberOf(node->inputs[1]) == -1 ? &node->inputs[0]
                                                                               : nullptr;
  }

  /// What is put at the mask's places: `kind` says how pdc.MaskedScatter reads it.
  struct Source {
    std::string name, kind;
  };

  std::optional<Source> sourceOf(const std::string &updates, const std::string &mask) const {
    if (const ModelNode *chosen = makers.of(updates, "GatherND"))
      return chosen->attributes.integer("batch_dims", 0) == 0 && maskOf(chosen->inputs[1]) == mask
                 ? std::optional<Source>({chosen->inputs[0], "chosen"})
                 : std::nullopt;
    // As many of the source's elements as the mask has.
    const ModelNode *first = makers.of(updates, "Slice");
    const std::string *all = first && begins(*first) ? flattened(first->inputs[0]) : nullptr;
    if (first)
      return all ? std::optional<Source>({*all, "rows"}) : std::nullopt;
    const std::string *values = flattened(updates);
    const ModelNode *repeated = makers.of(values ? *values : updates, "Expand");
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
    if (const ModelNode *expanded = makers.of(mask, "Expand"))
      node.inputs.push_back(makers.before(expanded->inputs[0], {"Expand"}));
  }

  /// A slice of one dimension from 0 on.
  bool begins(const ModelNode &slice) const {
    return slice.inputs.size() >= 3 && slice.inputs.size() <= 4 && numberOf(slice.inputs[1]) == 0;
  }

  Model &model;
  const Makers makers;
};

} // namespace

void replaceMaskedPlaces(Model &model) { MaskedPlaces(model).replace(); }

} // namespace pdc
