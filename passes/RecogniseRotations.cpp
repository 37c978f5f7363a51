#include "passes/Composites.h"

using namespace mlir;
using namespace pdc;
using namespace pdc::ir;

namespace {

/// What is turned where a value is (-x2, x1) of both halves of its width; else null.
Value turnedBehind(Value value) {
  NodeOp joined = maker(value, "Concat");
  NodeOp negated =
      joined && joined.getNumOperands() == 2 ? maker(joined.getOperand(0), "Neg") : NodeOp();
  if (!negated)
    return {};
  auto first = dyn_cast<OpResult>(joined.getOperand(1));
  auto second = dyn_cast<OpResult>(negated.getOperand(0));
  const auto rank = static_cast<int64_t>(shapeOf(value).size());
  if (!first || !second || first.getOwner() != second.getOwner() || axisOf(joined) != rank - 1 ||
      first.getType() != second.getType())
    return {};
  auto split = cast<NodeOp>(first.getOwner());
  return split.getOp() == "Split" && split.getNumResults() == 2 && first.getResultNumber() == 0 &&
                 second.getResultNumber() == 1 && axisOf(split) == rank - 1
             ? split.getOperand(0)
             : Value();
}

/// The factors of a product; both null where the value is none.
std::pair<Value, Value> factorsOf(Value value) {
  NodeOp product = value.hasOneUse() ? maker(value, "Mul") : NodeOp();
  return product ? std::pair(product.getOperand(0), product.getOperand(1))
                 : std::pair<Value, Value>();
}

/// x cos + (-x2, x1) sin.
struct Rotation {
  Value x, cosines, sines;
};

std::optional<Rotation> rotationOf(Value plain, Value turned) {
  auto [a, b] = factorsOf(turned);
  for (auto [rows, sines] : {std::pair(a, b), std::pair(b, a)}) {
    Value x = rows ? turnedBehind(rows) : Value();
    auto [c, d] = x ? factorsOf(plain) : std::pair<Value, Value>();
    if (!c || (c != x && d != x))
      continue;
    Value cosines = c == x ? d : c;
    ArrayRef<int64_t> angles = shapeOf(sines);
    if (cosines.getType() == sines.getType() && cosines != x && !angles.empty() &&
        angles.back() == shapeOf(x).back())
      return Rotation{x, cosines, sines};
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
  NodeOp transposed = maker(rotation.x, "Transpose");
  std::vector<int64_t> permutation =
      transposed ? permutationOf(transposed) : std::vector<int64_t>();
  std::optional<std::vector<int64_t>> angles;
  if (!permutation.empty() && permutation.back() == int64_t(permutation.size()) - 1)
    angles = anglesBefore(rotation.sines, permutation);
  auto turned = [&](const std::string &as, ArrayRef<Value> operands) {
    return createNode(builder, root.getLoc(), "RotateHalves", as, operands,
                      {{"inverse", int64_t(0)}})
        ->getResult(0);
  };
  Value made;
  if (angles) {
    auto seen = [&](Value value) {
      return shapeOf(value) == ArrayRef(*angles)
                 ? value
                 : reshaped(builder, root, names.unique(name + "/angles"), value, *angles, names);
    };
    Value before = turned(names.unique(name + "/RotateHalves"),
                          {transposed.getOperand(0), seen(rotation.cosines), seen(rotation.sines)});
    made = createNode(builder, root.getLoc(), "Transpose", name, before, {{"perm", permutation}})
               ->getResult(0);
  } else {
    made = turned(name, {rotation.x, rotation.cosines, rotation.sines});
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
        found && found->x.getType() == root->getResult(0).getType() &&
        isa<FloatType>(cast<RankedTensorType>(found->x.getType()).getElementType())) {
      replace(root, *found, names);
      return true;
    }
  return false;
}

} // namespace pdc
