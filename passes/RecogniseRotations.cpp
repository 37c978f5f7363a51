#include "passes/Composites.h"

#include "compiler/operators/Slice.h"

using namespace mlir;
using namespace pdc;
using namespace pdc::ir;

namespace {

/// What is turned by (-x2, x1), which are halves of its width or, interleaved, every second
/// element.
struct Turned {
  Value x;
  bool isInterleaved = false;
  explicit operator bool() const { return x != nullptr; }
};

bool isLastAxis(NodeOp node) {
  return axisOf(node) == int64_t(shapeOf(node->getResult(0)).size()) - 1;
}

/// (-a, b) one behind the other along the last dimension, each a view where `isViewed`; nulls where
/// a value is none.
std::pair<Value, Value> negatedAndOther(Value value, bool isViewed) {
  NodeOp joined = maker(value, "Concat");
  if (!joined || joined.getNumOperands() != 2 || !isLastAxis(joined))
    return {};
  auto behind = [&](Value part) {
    auto view = part.getDefiningOp<NodeOp>();
    const bool addsOne = view && isViewNode(view) && shapeOf(part).back() == 1 &&
                         shapeOf(part).drop_back() == shapeOf(view.getOperand(0));
    return isViewed ? addsOne ? view.getOperand(0) : Value() : part;
  };
  Value first = behind(joined.getOperand(0)), second = behind(joined.getOperand(1));
  NodeOp negated = first ? maker(first, "Neg") : NodeOp();
  return negated && second ? std::pair(negated.getOperand(0), second) : std::pair<Value, Value>();
}

Turned halvesBehind(Value value) {
  auto [b, a] = negatedAndOther(value, false);
  auto second = dyn_cast_or_null<OpResult>(b), first = dyn_cast_or_null<OpResult>(a);
  if (!first || !second || first.getOwner() != second.getOwner() ||
      first.getType() != second.getType() || first.getResultNumber() != 0 ||
      second.getResultNumber() != 1)
    return {};
  auto split = dyn_cast<NodeOp>(first.getOwner());
  if (!split || split.getOp() != "Split" || split.getNumResults() != 2 || !isLastAxis(split))
    return {};
  return {split.getOperand(0)};
}

/// The operand of which a Slice takes every second element of its width from `start` on, and all of
/// what is before.
Value everySecond(Value value, int64_t start) {
  NodeOp slice = value ? maker(value, "Slice") : NodeOp();
  if (!slice)
    return {};
  const NodeFacts facts(slice);
  const std::vector<int64_t> &shape = facts.view().input(0).shape;
  const SliceRange range = resolveSlice(facts.view(), shape, 1);
  const size_t last = shape.size() - 1;
  for (size_t d = 0; d < last; ++d)
    if (range.step[d] != 1 || range.count[d] != shape[d])
      return {};
  return shape[last] % 2 == 0 && range.step[last] == 2 && range.start[last] == start &&
                 range.count[last] == shape[last] / 2
             ? slice.getOperand(0)
             : Value();
}

Turned neighboursBehind(Value value) {
  auto view = value.getDefiningOp<NodeOp>();
  if (!view || !isViewNode(view))
    return {};
  auto [b, a] = negatedAndOther(view.getOperand(0), true);
  Value x = everySecond(a, 0);
  return x && everySecond(b, 1) == x && x.getType() == value.getType() ? Turned{x, true} : Turned();
}

Turned turnedBehind(Value value) {
  Turned halves = halvesBehind(value);
  return halves ? halves : neighboursBehind(value);
}

/// The factors of a product; both null where the value is none.
std::pair<Value, Value> factorsOf(Value value) {
  NodeOp product = value.hasOneUse() ? maker(value, "Mul") : NodeOp();
  return product ? std::pair(product.getOperand(0), product.getOperand(1))
                 : std::pair<Value, Value>();
}

/// x cos + (-x2, x1) sin.
struct Rotation {
  Turned turned;
  Value cosines, sines;
};

std::optional<Rotation> rotationOf(Value plain, Value turned) {
  auto [a, b] = factorsOf(turned);
  for (auto [rows, sines] : {std::pair(a, b), std::pair(b, a)}) {
    const Turned turned = rows ? turnedBehind(rows) : Turned();
    Value x = turned.x;
    auto [c, d] = x ? factorsOf(plain) : std::pair<Value, Value>();
    if (!c || (c != x && d != x))
      continue;
    Value cosines = c == x ? d : c;
    ArrayRef<int64_t> angles = shapeOf(sines);
    if (cosines.getType() == sines.getType() && cosines != x && !angles.empty() &&
        angles.back() == shapeOf(x).back())
      return Rotation{turned, cosines, sines};
  }
  return std::nullopt;
}

/// Angles for an operand before a transposition: a view, where nothing but dimensions of 1 changes
/// places with others; else null.
std::optional<std::vector<int64_t>> anglesBefore(Value angles, ArrayRef<int64_t> permutation) {
  std::vector<int64_t> shape(shapeOf(angles)), before(permutation.size());
  shape.insert(shape.begin(), permutation.size() - shape.size(), 1);
  int64_t last = -1; // of those that are longer, where it comes from
  for (size_t d = 0; d < shape.size(); ++d) {
    before[static_cast<size_t>(permutation[d])] = shape[d];
    if (shape[d] == 1)
      continue;
    if (permutation[d] < last)
      return std::nullopt;
    last = permutation[d];
  }
  return before;
}

/// Puts one node in the pattern's place; where what is turned was transposed, before that, so that
/// others read the transposition, as attention does where it lies.
void replace(NodeOp root, const Rotation &rotation, NodeNames &names) {
  OpBuilder builder(root);
  const std::string name = root.getName().str();
  NodeOp transposed = maker(rotation.turned.x, "Transpose");
  std::vector<int64_t> permutation =
      transposed ? permutationOf(transposed) : std::vector<int64_t>();
  std::optional<std::vector<int64_t>> angles;
  if (!permutation.empty() && permutation.back() == int64_t(permutation.size()) - 1)
    angles = anglesBefore(rotation.sines, permutation);
  auto turned = [&](const std::string &as, ArrayRef<Value> operands) {
    Attributes attributes = {{"inverse", int64_t(0)}};
    if (rotation.turned.isInterleaved)
      attributes.set("interleaved", int64_t(1));
    return createNode(builder, root.getLoc(), "RotateHalves", as, operands, attributes)
        ->getResult(0);
  };
  Value made;
  if (angles) {
    auto seen = [&](Value value) {
      return inShape(builder, root, "/angles", value, *angles, names);
    };
    Value before = turned(names.unique(name + "/RotateHalves"),
                          {transposed.getOperand(0), seen(rotation.cosines), seen(rotation.sines)});
    made = createNode(builder, root.getLoc(), "Transpose", name, before, {{"perm", permutation}})
               ->getResult(0);
  } else {
    made = turned(name, {rotation.turned.x, rotation.cosines, rotation.sines});
  }
  root->getResult(0).replaceAllUsesWith(made);
  root.erase();
}

} // namespace

namespace pdc {

bool recogniseRotation(NodeOp root, NodeNames &names) {
  if (root.getOp() != "Add" || root.getNumOperands() != 2)
    return false;
  for (int i : {0, 1})
    if (std::optional<Rotation> found = rotationOf(root.getOperand(i), root.getOperand(1 - i));
        found && found->turned.x.getType() == root->getResult(0).getType() &&
        isa<FloatType>(cast<RankedTensorType>(found->turned.x.getType()).getElementType())) {
      replace(root, *found, names);
      return true;
    }
  return false;
}

} // namespace pdc
