#include "compiler/operators/Composition.h"
#include "compiler/operators/Rules.h"

/// Operators that repeat or rearrange blocks: views around a transposition or an expansion.
namespace pdc {

/// [2,3] repeated [4,5] times: [1,2,1,3] expanded to [4,2,5,3], seen as [8,15].
static std::vector<NodeValue> composeTile(CompositionBuilder &b) {
  std::vector<int64_t> shape = b.type(b.input(0)).shape, repeats = knownIntegers(b, 1);
  if (repeats.size() != shape.size())
    b.refuse("repeats " + shapeText(repeats) + " for input " + b.type(b.input(0)).toString());
  std::vector<int64_t> apart, expanded, result;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (repeats[d] < 0)
      b.refuse("repeats " + shapeText(repeats) + ", expected no negative ones");
    apart.insert(apart.end(), {1, shape[d]});
    expanded.insert(expanded.end(), {repeats[d], shape[d]});
    result.push_back(repeats[d] * shape[d]);
  }
  NodeValue x = reshaped(b, b.input(0), apart);
  return {reshaped(b, add(b, "Expand", {x, b.constant(Tensor::vector(expanded))}), result)};
}

/// Where it is not evaluated: a number that is repeated.
static std::vector<NodeValue> composeConstantOfShape(CompositionBuilder &b) {
  const Tensor *value = b.attributes().tensor("value");
  NodeValue fill = value ? b.constant({{value->type.element, {}}, value->data})
                         : number(b, ElementType::f32, 0);
  return {add(b, "Expand", {fill, b.input(0)})};
}

/// The shape of an image and its block size.
struct Blocks {
  std::vector<int64_t> shape;
  int64_t size;

  explicit Blocks(CompositionBuilder &b)
      : shape(b.type(b.input(0)).shape), size(b.attributes().integer("blocksize", 0)) {
    if (shape.size() != 4 || size < 1)
      b.refuse("input " + b.type(b.input(0)).toString() + " in blocks of " + std::to_string(size) +
               ", expected an image of rank 4 and blocks of 1 or more");
  }
};

static std::vector<NodeValue> composeDepthToSpace(CompositionBuilder &b) {
  Blocks blocks(b);
  const int64_t n = blocks.shape[0], c = blocks.shape[1], h = blocks.shape[2], w = blocks.shape[3];
  const int64_t k = blocks.size;
  std::string mode = b.attributes().string("mode", "DCR");
  if (c % (k * k) != 0 || (mode != "DCR" && mode != "CRD"))
    b.refuse("mode '" + mode + "' with " + std::to_string(c) + " channels in blocks of " +
             std::to_string(k) + ", expected DCR or CRD and a multiple of " + std::to_string(k * k));
  NodeValue x = mode == "DCR" ? reshaped(b, b.input(0), {n, k, k, c / k / k, h, w})
                              : reshaped(b, b.input(0), {n, c / k / k, k, k, h, w});
  x = mode == "DCR" ? transposed(b, x, {0, 3, 4, 1, 5, 2}) : transposed(b, x, {0, 1, 4, 2, 5, 3});
  return {reshaped(b, x, {n, c / k / k, h * k, w * k})};
}

static std::vector<NodeValue> composeSpaceToDepth(CompositionBuilder &b) {
  Blocks blocks(b);
  const int64_t n = blocks.shape[0], c = blocks.shape[1], h = blocks.shape[2], w = blocks.shape[3];
  const int64_t k = blocks.size;
  const std::string mode = b.attributes().string("mode", "DCR");
  if (h % k != 0 || w % k != 0 || (mode != "DCR" && mode != "CRD"))
    b.refuse("mode '" + mode + "' of input " + b.type(b.input(0)).toString() + " in blocks of " +
             std::to_string(k) + ", expected DCR or CRD and whole blocks");
  NodeValue x = reshaped(b, b.input(0), {n, c, h / k, k, w / k, k});
  const std::vector<int64_t> order = mode == "DCR" ? std::vector<int64_t>{0, 3, 5, 1, 2, 4}
                                                   : std::vector<int64_t>{0, 1, 3, 5, 2, 4};
  return {reshaped(b, transposed(b, x, order), {n, c * k * k, h / k, w / k})};
}

std::span<const ComposedOperator> rearrangements() {
  static const ComposedOperator operators[] = {
      {{.name = "Tile",
       .firstOpset = kFirstOpset,
       .lastOpset = kLastOpset,
       .inputs = {{"input"}, {.name = "repeats", .known = true}},
       .outputs = {{"output"}}},
       composeTile},
      {{.name = "DepthToSpace",
       .firstOpset = 1,
       .lastOpset = kLastOpset,
       .inputs = {{"input"}},
       .outputs = {{"output"}}},
       composeDepthToSpace},
      {{.name = "SpaceToDepth",
       .firstOpset = 1,
       .lastOpset = kLastOpset,
       .inputs = {{"input"}},
       .outputs = {{"output"}}},
       composeSpaceToDepth},
  };
  return operators;
}

std::span<const ComposedForm> repetitionForms() {
  static const ComposedForm forms[] = {{"ConstantOfShape", composeConstantOfShape}};
  return forms;
}

} // namespace pdc
