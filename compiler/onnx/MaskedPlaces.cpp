#include "compiler/onnx/MaskedPlaces.h"

#include "compiler/onnx/Makers.h"
#include "compiler/operators/Random.h"

#include <unordered_set>

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
    for (ModelNode &node : model.nodes)
      if (const std::string mask = maskOfRows(node); !mask.empty() && isOfData(mask))
        node = {node.name, "pdc.SelectedRows", {}, {node.inputs[0], mask}, node.outputs};
    for (ModelNode &node : model.nodes)
      if (node.op == "NonZero" && isOfData(node.inputs[0]))
        node.op = "pdc.SelectedPlaces";
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

  /// The mask whose elements say which rows the node takes of its first input; empty for others.
  std::string maskOfRows(const ModelNode &node) const {
    if (node.op == "GatherND" && node.attributes.integer("batch_dims", 0) == 0)
      return maskOf(node.inputs[1]);
    if (node.op == "Compress" && node.attributes.integer("axis", -1) == 0)
      return node.inputs[1];
    return "";
  }

  /// Whether it is another in each microbatch. Shapes and constants alone are known when it is
  /// compiled.
  bool isOfData(const std::string &value) const {
    std::unordered_set<std::string> seen;
    std::vector<std::string> open = {value};
    while (!open.empty()) {
      const std::string name = std::move(open.back());
      open.pop_back();
      if (name.empty() || !seen.insert(name).second)
        continue;
      const ModelNode *node = makers.of(name);
      if (!node && !isConstant(name))
        return true;
      if (!node || node->op == "Shape" || node->op == "Size")
        continue;
      if (drawsNumbers(node->op))
        return true;
      open.insert(open.end(), node->inputs.begin(), node->inputs.end());
    }
    return false;
  }

  /// As the importer decides: floating-point tensors are read where the program runs.
  bool isConstant(const std::string &name) const {
    auto found = model.initializers.find(name);
    return found != model.initializers.end() &&
           (found->second.literal || !isFloatingPoint(found->second.type.element));
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
