#include "compiler/operators/Families.h"
#include "compiler/operators/Rules.h"

namespace pdc {

/// Input 1 moves the diagonal; attribute `upper` says which side stays.
static void normaliseTrilu(ImportedNode &node, int) {
  node.attributes.set("upper", node.attributes.integer("upper", 1));
}

static std::vector<TensorType> inferTrilu(const NodeView &node) {
  const TensorType &x = node.input(0);
  if (x.rank() < 2)
    refuse(node, "input " + x.toString() + ", expected rank 2 or more");
  if (node.hasInput(1) && knownIntegers(node, 1).size() != 1)
    refuse(node, "input 1 (k) is " + node.input(1).toString() + ", expected one integer");
  return {x};
}

static std::vector<Tensor> evaluateTrilu(const NodeView &node,
                                         std::span<const Tensor *const> inputs) {
  Tensor y = *inputs[0];
  int64_t rows = y.type.shape[y.type.rank() - 2], columns = y.type.shape.back();
  int64_t k = inputs.size() > 1 && inputs[1] ? inputs[1]->toIntegers().at(0) : 0;
  bool upper = node.attributes.integer("upper", 1) != 0;
  for (size_t i = 0; i < y.data.size(); ++i) {
    int64_t column = i % columns, row = i / columns % rows;
    bool stays = upper ? column - row >= k : column - row <= k;
    y.data[i] = stays ? y.data[i] : 0;
  }
  return {y};
}

static void differentiateTrilu(GradientBuilder &b) {
  if (!b.wants(0))
    return;
  std::vector<GradientValue> inputs = {b.outputGradient(0)};
  if (b.inputCount() > 1 && b.input(1))
    inputs.push_back(b.input(1));
  b.setInputGradient(0, add(b, "Trilu", inputs, b.attributes()));
}

std::span<const Operator> triangleOperators() {
  static const Operator operators[] = {
      {.name = "Trilu",
       .firstOpset = 14,
       .lastOpset = kLastOpset,
       .inputs = {{"input"}, {.name = "k", .optional = true, .known = true}},
       .outputs = {{"output"}},
       .normalise = normaliseTrilu,
       .infer = inferTrilu,
       .evaluate = evaluateTrilu,
       .differentiate = differentiateTrilu},
  };
  return operators;
}

} // namespace pdc
